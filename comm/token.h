// The job's token (FLAGS_job_token) and what may travel as plain text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// What only a holder of the job's token can make of `text`. Without a token everybody can.
std::string token_proof(std::string_view text);

// Where processes have no credentials, nothing that they tell each other is encrypted:
// FLAGS_plaintext says what is done where one of the endpoints is not of this machine: one warning,
// an Error, or nothing.
void check_plaintext(const std::vector<std::string>& endpoints);

}  // namespace trireme
