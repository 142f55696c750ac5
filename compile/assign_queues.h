// Which queue each instruction goes to, whom it waits for, and how long memory must be kept for it.
#pragma once

#include "compile/plan.h"

namespace trireme {

// Instructions of the host run when the caller comes to them; those of a device go to its queues
// and run later: each queue in order, and no two queues in any order but what waits say. Decides
// queue, waits and signals of every instruction, and lets slots live until the last instruction
// that may still run beside one of their readers: layouts of memory need not know of queues then.
void assign_queues(Plan& plan);

// Shares no code with assign_queues: proves by replay that every instruction runs behind whoever
// writes what it reads and whoever reads what it overwrites, slots that live at different times
// included. An InternalError names the first two that no wait orders.
void check_order(const Plan& plan);

}  // namespace trireme
