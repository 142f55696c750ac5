// Tile programs: the steps, and which rows of the op table they do the work of.
#include "ir/tile.h"

#include <gmock/gmock.h>

#include <set>

#include "ir/schema.h"

namespace trireme {
namespace {

TEST(TileOp, SaysHowManyOperandsItTakes) {
  EXPECT_EQ(tile_operands(TileOp::copy), 1);
  EXPECT_EQ(tile_operands(TileOp::round), 1);
  EXPECT_EQ(tile_operands(TileOp::add), 2);
  EXPECT_EQ(tile_operands(TileOp::ge), 2);
  EXPECT_EQ(tile_operands(TileOp::mask_not), 1);
  EXPECT_EQ(tile_operands(TileOp::mask_and), 2);
  EXPECT_EQ(tile_operands(TileOp::select), 3);
}

TEST(TileOp, MasksComeFromComparisonsAndFromMasks) {
  EXPECT_FALSE(makes_mask(TileOp::floordiv));
  EXPECT_TRUE(makes_mask(TileOp::eq));
  EXPECT_TRUE(makes_mask(TileOp::mask_xor));
  EXPECT_FALSE(makes_mask(TileOp::select));
  EXPECT_FALSE(takes_masks(TileOp::eq));
  EXPECT_TRUE(takes_masks(TileOp::mask_not));
  EXPECT_FALSE(takes_masks(TileOp::select));
}

// Every step but `copy` is one primitive's, which takes as many operands and is called like it.
TEST(TileOp, HasOnePrimitiveEach) {
  std::set<TileOp> met;
  for (const OpSchema* row : op_table().rows()) {
    const std::optional<TileOp> tile = row->trait().tile;
    if (!tile) continue;
    EXPECT_TRUE(row->trait().primitive) << row->type();
    EXPECT_EQ(row->inputs().size(), static_cast<size_t>(tile_operands(*tile))) << row->type();
    EXPECT_TRUE(met.insert(*tile).second) << row->type() << " shares its step with another";
  }
  EXPECT_EQ(met.size(), static_cast<size_t>(TileOp::select));
  EXPECT_EQ(op_table().get("p.mod").trait().tile, TileOp::mod);
  EXPECT_EQ(op_table().get("p.xor").trait().tile, TileOp::mask_xor);
  EXPECT_EQ(op_table().get("p.is_finite").trait().tile, std::nullopt);
}

}  // namespace
}  // namespace trireme
