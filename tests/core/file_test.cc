// Files: bounded reading, and writing that leaves the old file or the new one.
#include "core/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>

#include "tests/support/temp_dir.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using trireme::testing::TempDir;

size_t files_in(const std::string& dir) {
  return static_cast<size_t>(std::distance(fs::directory_iterator(dir), fs::directory_iterator()));
}

TEST(AtomicFile, UncommittedLeavesTheOldFileAndNothingElse) {
  const TempDir dir;
  write_file(dir / "a", "old");
  {
    AtomicFile file(dir / "a");
    file.write("half of the new");
  }
  EXPECT_EQ(read_file(dir / "a", 100), "old");
  EXPECT_EQ(files_in(dir.path()), 1u);
}

TEST(AtomicFile, FailingWriteLeavesTheOldFile) {
  const TempDir dir;
  write_file(dir / "a", "old");
  // A limit on file sizes stands in for a full disk.
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small = before;
  small.rlim_cur = 1024;
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  std::string what;
  try {
    write_file(dir / "a", std::string(1 << 20, 'x'));
  } catch (const Error& error) {
    what = error.what();
  }
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, old_handler);
  EXPECT_THAT(what, HasSubstr("cannot write"));
  EXPECT_THAT(what, HasSubstr("as it was before"));
  EXPECT_EQ(read_file(dir / "a", 100), "old");
  EXPECT_EQ(files_in(dir.path()), 1u);
}

TEST(AtomicFile, ReplacesThroughLinksAndKeepsPermissions) {
  const TempDir dir;
  write_file(dir / "target", "old");
  fs::permissions(dir / "target", fs::perms::owner_read | fs::perms::owner_write);
  fs::create_symlink("target", dir / "link");
  write_file(dir / "link", "new");
  EXPECT_TRUE(fs::is_symlink(dir / "link"));
  EXPECT_EQ(read_file(dir / "target", 100), "new");
  EXPECT_EQ(fs::status(dir / "target").permissions(),
            fs::perms::owner_read | fs::perms::owner_write);
}

TEST(AtomicFile, MakesDirectoriesAndRefusesToReplaceOne) {
  const TempDir dir;
  write_file(dir / "x/y/z", "deep");
  EXPECT_EQ(read_file(dir / "x/y/z", 100), "deep");
  EXPECT_THROW(write_file(dir / "x/y", "no"), Error);
}

TEST(ByteSource, NamesWhatEndsTooEarlyAndWhere) {
  const TempDir dir;
  write_file(dir / "short", "abcdef");
  ByteSource source = ByteSource::file(dir / "short");
  EXPECT_EQ(source.read<uint32_t>("first"), 0x64636261u);
  try {
    source.read<uint64_t>("the second");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("the second needs 8 bytes but only 2 are left, at byte 4"));
    EXPECT_THAT(error.what(), HasSubstr("short"));
  }
}

TEST(ByteSource, ReadsLargeAndSmallPiecesInOrder) {
  const TempDir dir;
  std::string content;
  for (int i = 0; i < 300000; ++i) content.push_back(static_cast<char>(i * 7));
  write_file(dir / "big", content);
  ByteSource source = ByteSource::file(dir / "big");
  std::string got;
  for (size_t size = 1; !source.at_end(); size = size * 3 % 100003) {
    std::string piece(std::min<uint64_t>(size, source.left()), '\0');
    source.read(piece.data(), piece.size(), "a piece");
    got += piece;
  }
  EXPECT_EQ(got, content);
}

TEST(ByteSource, MissingFilesAndDirectoriesAreIoErrors) {
  const TempDir dir;
  for (const std::string& path : {dir / "missing", dir.path()}) {
    try {
      ByteSource::file(path);
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::external);
      EXPECT_THAT(error.what(), HasSubstr(path));
    }
  }
}

}  // namespace
}  // namespace trireme
