// Saves of several files: all of the old ones or all of the new ones; checksums; who cleans up.
#include "core/directory_save.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "core/crc32c.h"
#include "tests/support/temp_dir.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using trireme::testing::TempDir;

std::string read_saved(const std::string& directory, const std::string& name) {
  ByteSource source = SavedDirectory(directory).open(name);
  return read_rest(source, 1000);
}

void save_two(const std::string& directory, const std::string& text) {
  DirectorySave save(directory);
  save.file("a").write(text);
  save.file("deep/b").write(text);
  save.commit();
}

std::string problem_of_reading(const std::string& directory, const std::string& name) {
  try {
    read_saved(directory, name);
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

TEST(Crc32c, KnownSumsWholeAndInPieces) {
  EXPECT_EQ(crc32c(0, "123456789", 9), 0xe3069283u);
  EXPECT_EQ(crc32c(crc32c(0, "12345", 5), "6789", 4), 0xe3069283u);
  EXPECT_EQ(crc32c(0, std::string(32, '\0').data(), 32), 0x8a9136aau);
}

TEST(DirectorySave, WritesAllOrNothing) {
  const TempDir dir;
  save_two(dir.path(), "old");
  {
    DirectorySave save(dir.path());
    save.file("a").write("half of the new");
  }
  EXPECT_EQ(read_saved(dir.path(), "a"), "old");
  EXPECT_EQ(read_saved(dir.path(), "deep/b"), "old");
  EXPECT_THAT(SavedDirectory(dir.path()).names(), ElementsAre("a", "deep/b"));
  save_two(dir.path(), "new");
  EXPECT_EQ(read_saved(dir.path(), "a"), "new");
  EXPECT_EQ(read_saved(dir.path(), "deep/b"), "new");
}

// What a writer leaves that is killed after the commit and before its files have moved.
TEST(DirectorySave, ACommittedSaveIsReadAndFinished) {
  const TempDir dir;
  save_two(dir.path(), "old");
  fs::create_directories(dir / ".trireme.committed/deep");
  write_file(dir / ".trireme.committed/deep/b", "new");  // a has moved already
  write_file(dir / "a", "new");
  fs::remove(dir / ".trireme.sums");
  EXPECT_EQ(read_saved(dir.path(), "a"), "new");
  EXPECT_EQ(read_saved(dir.path(), "deep/b"), "new");
  EXPECT_THAT(SavedDirectory(dir.path()).names(), ElementsAre("a", "deep/b"));
  {
    DirectorySave next(dir.path());
    next.file("c").write("more");
    next.commit();
  }
  EXPECT_FALSE(fs::exists(dir / ".trireme.committed"));
  EXPECT_EQ(read_file(dir / "deep/b", 10), "new");
}

TEST(DirectorySave, TheNextWriterRemovesWhatKilledOnesLeft) {
  const TempDir dir;
  fs::create_directories(dir / ".trireme.save.1.0");
  write_file(dir / ".trireme.save.1.0/a", "half");
  DirectorySave alive(dir.path());
  alive.file("b").write("of one that lives");
  save_two(dir.path(), "new");
  EXPECT_FALSE(fs::exists(dir / ".trireme.save.1.0"));
  alive.commit();
  EXPECT_EQ(read_saved(dir.path(), "b"), "of one that lives");
  EXPECT_EQ(read_saved(dir.path(), "a"), "new");
}

TEST(DirectorySave, DamageIsNamed) {
  const TempDir dir;
  save_two(dir.path(), "good");
  write_file(dir / "a", "goof");
  EXPECT_THAT(problem_of_reading(dir.path(), "a"), HasSubstr("is damaged"));
  EXPECT_THAT(problem_of_reading(dir.path(), "a"), HasSubstr("remove " + (dir / ".trireme.sums")));
  EXPECT_EQ(problem_of_reading(dir.path(), "deep/b"), "");
  write_file(dir / ".trireme.sums", "nonsense");
  EXPECT_THAT(problem_of_reading(dir.path(), "deep/b"), HasSubstr(".trireme.sums"));
}

TEST(DirectorySave, NamesStayInTheDirectory) {
  const TempDir dir;
  DirectorySave save(dir / "x");
  for (const char* name : {"../a", "/tmp/a", "", ".", "b/../../a"}) {
    EXPECT_THROW(save.file(name), Error) << name;
  }
  fs::create_directories(dir / "x/folder");
  EXPECT_THROW(save.file("folder"), Error);
}

TEST(AtomicFile, TheNextWriterRemovesWhatAKilledOneLeft) {
  const TempDir dir;
  write_file(dir / "a.tmp.1.0", "half");
  AtomicFile alive(dir / "a");
  alive.write("of one that lives");
  write_file(dir / "a", "another");
  EXPECT_FALSE(fs::exists(dir / "a.tmp.1.0"));
  alive.commit();
  EXPECT_EQ(read_file(dir / "a", 100), "of one that lives");
}

}  // namespace
}  // namespace trireme
