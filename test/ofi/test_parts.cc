/* Registrations of several pieces, and of all memory. */
#include "node.h"

#include <algorithm>
#include <memory>
#include <rdma/fi_atomic.h>
#include <sys/mman.h>
#include <unistd.h>

namespace
{

const uint64_t kAccess = FI_REMOTE_READ | FI_REMOTE_WRITE;

class Parts : public Pair, public testing::WithParamInterface<int>
{
  protected:
    void open_parts()
    {
        Wish wish;
        wish.mr_mode = GetParam();
        open(wish);
        has_addresses = b->info->domain_attr->mr_mode & (FI_MR_VIRT_ADDR | MR_BASIC);
    }

    /** The error of a write of `data` to b, 0 if there is none. */
    int write(uint64_t at, const std::vector<char> &data)
    {
        EXPECT_EQ(0, go([&] {
                      return fi_write(a->ep, data.data(), data.size(), nullptr, b_of_a, at,
                                      fi_mr_key(mr), nullptr);
                  }));
        return next(*a).err;
    }

    int read(uint64_t at, std::vector<char> &data)
    {
        EXPECT_EQ(0, go([&] {
                      return fi_read(a->ep, data.data(), data.size(), nullptr, b_of_a, at,
                                     fi_mr_key(mr), nullptr);
                  }));
        return next(*a).err;
    }

    /** The error of adding 1 to `count` numbers of b. */
    int add(uint64_t at, size_t count)
    {
        std::vector<uint64_t> ones(count, 1);

        EXPECT_EQ(0, go([&] {
                      return fi_atomic(a->ep, ones.data(), count, nullptr, b_of_a, at,
                                       fi_mr_key(mr), FI_UINT64, FI_SUM, nullptr);
                  }));
        return next(*a).err;
    }

    void close_mr()
    {
        EXPECT_EQ(0, fi_close(&mr->fid));
        mr = nullptr;
    }

    bool has_addresses = false;
    fid_mr *mr = nullptr;
};

/* Pieces have their own addresses, or follow one another from 0. Then an access may cross pieces. */
TEST_P(Parts, SeveralPieces)
{
    open_parts();
    const size_t lengths[] = {96, 5000, 70000, 8};
    std::vector<std::vector<char>> pieces;
    std::vector<iovec> iov;
    std::vector<uint64_t> starts;
    size_t total = 0;

    for (size_t length : lengths) {
        pieces.emplace_back(length, 'x');
    }
    for (auto &piece : pieces) {
        iov.push_back({piece.data(), piece.size()});
        starts.push_back(has_addresses ? reinterpret_cast<uint64_t>(piece.data()) : total);
        total += piece.size();
    }
    EXPECT_EQ(4u, b->info->domain_attr->mr_iov_limit);
    ASSERT_EQ(0, fi_mr_regv(b->domain, iov.data(), 4, kAccess, 0, 11, 0, &mr, nullptr));
    for (size_t i = 0; i < 4; i++) { /* each piece, all of it */
        std::vector<char> data = pattern(lengths[i], static_cast<unsigned>(i)), got(lengths[i]);
        EXPECT_EQ(0, write(starts[i], data));
        EXPECT_EQ(data, pieces[i]);
        EXPECT_EQ(0, read(starts[i], got));
        EXPECT_EQ(data, got);
        memset(pieces[i].data() + lengths[i] - 8, 0, 8);
        EXPECT_EQ(0, add(starts[i] + lengths[i] - 8, 1));
        EXPECT_EQ(1, pieces[i][lengths[i] - 8]);
    }
    if (!has_addresses) {
        std::vector<char> all = pattern(total, 9), got(total),
                          short_all(all.begin() + 90, all.begin() + 110);
        EXPECT_EQ(0, write(0, all));
        size_t at = 0;
        for (auto &piece : pieces) {
            EXPECT_TRUE(std::equal(piece.begin(), piece.end(), all.begin() + at));
            at += piece.size();
        }
        EXPECT_EQ(0, read(0, got));
        EXPECT_EQ(all, got);
        EXPECT_EQ(0, write(90, short_all));
        std::fill(pieces[0].end() - 16, pieces[0].end(), 0);
        std::fill(pieces[1].begin(), pieces[1].begin() + 16, 0);
        EXPECT_EQ(0, add(80, 4)); /* elements of two pieces */
        EXPECT_EQ(1, pieces[0][80]);
        EXPECT_EQ(1, pieces[0][88]);
        EXPECT_EQ(1, pieces[1][0]);
        EXPECT_EQ(1, pieces[1][8]);
        EXPECT_EQ(FI_EINVAL, add(92, 1)); /* one element in two pieces */
        EXPECT_EQ(FI_EINVAL, write(total - 7, std::vector<char>(8)));
    }
    std::vector<std::vector<char>> before = pieces;
    std::vector<char> nine(9);
    EXPECT_EQ(FI_EINVAL, write(starts[3], nine)); /* behind the last one */
    EXPECT_EQ(FI_EINVAL, write(starts[0] - 1, nine));
    EXPECT_EQ(FI_EINVAL, add(starts[3] + 8, 1));
    EXPECT_EQ(before, pieces);
    close_mr();
}

TEST_P(Parts, PiecesAreLimited)
{
    open_parts();
    std::vector<char> memory(100);
    std::vector<iovec> iov(5, iovec{memory.data(), 10});
    fi_mr_attr attr{};

    EXPECT_EQ(-FI_EINVAL, fi_mr_regv(b->domain, iov.data(), 5, kAccess, 0, 11, 0, &mr, nullptr));
    EXPECT_EQ(-FI_EINVAL, fi_mr_regv(b->domain, iov.data(), 0, kAccess, 0, 11, 0, &mr, nullptr));
    iov[2].iov_base = reinterpret_cast<void *>(64); /* nothing is mapped there */
    EXPECT_NE(0, fi_mr_regv(b->domain, iov.data(), 3, kAccess, 0, 11, 0, &mr, nullptr));
    attr.mr_iov = iov.data();
    attr.iov_count = 2;
    attr.access = kAccess;
    attr.requested_key = 11;
    ASSERT_EQ(0, fi_mr_regattr(b->domain, &attr, 0, &mr));
    close_mr();
}

/* The descriptor of a registration of pieces serves messages out of each of them */
TEST_P(Parts, MessagesOutOfPieces)
{
    open_parts();
    std::vector<char> first = pattern(200000, 1), second = pattern(300000, 2), got(300000);
    iovec iov[2] = {{first.data(), first.size()}, {second.data(), second.size()}};

    ASSERT_EQ(0, fi_mr_regv(a->domain, iov, 2, FI_SEND, 0, 11, 0, &mr, nullptr));
    for (auto *data : {&first, &second}) {
        for (size_t offset : {size_t(0), size_t(1000)}) {
            size_t length = data->size() - offset;
            ASSERT_EQ(
                0, fi_trecv(b->ep, got.data(), got.size(), nullptr, FI_ADDR_UNSPEC, 1, 0, nullptr));
            ASSERT_EQ(0, go([&] {
                          return fi_tsend(a->ep, data->data() + offset, length, fi_mr_desc(mr),
                                          b_of_a, 1, nullptr);
                      }));
            EXPECT_EQ(length, next(*b).len);
            EXPECT_EQ(0, memcmp(data->data() + offset, got.data(), length));
            EXPECT_EQ(0, next(*a).err);
        }
    }
    close_mr();
}

/* Pages at an address that the kernel chooses */
struct Pages {
    explicit Pages(size_t size, int rights = PROT_READ | PROT_WRITE) : length(size)
    {
        start = static_cast<char *>(
            mmap(nullptr, length, rights, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
        EXPECT_NE(MAP_FAILED, static_cast<void *>(start));
    }

    ~Pages()
    {
        munmap(start, length);
    }

    Pages(const Pages &) = delete;
    Pages &operator=(const Pages &) = delete;

    uint64_t at() const
    {
        return reinterpret_cast<uint64_t>(start);
    }

    char *start;
    size_t length;
};

char in_data[1000];

/* A registration of all memory: the heap, the stack, the program's data, and pages that are mapped
 * later */
TEST_P(Parts, AllMemory)
{
    open_parts();
    std::vector<char> heap(50000), data = pattern(1000, 1), got(1000);
    char on_stack[1000];

    ASSERT_EQ(0, fi_mr_reg(b->domain, nullptr, SIZE_MAX, kAccess, 0, 11, 0, &mr, nullptr));
    Pages later(100000);
    for (int round = 0; round < 2; round++) {
        for (char *memory : {heap.data() + 7, in_data, on_stack, later.start + 4090}) {
            uint64_t at = reinterpret_cast<uint64_t>(memory);
            data[0]++;
            EXPECT_EQ(0, write(at, data));
            EXPECT_EQ(0, memcmp(memory, data.data(), data.size()));
            EXPECT_EQ(0, read(at, got));
            EXPECT_EQ(data, got);
        }
    }
    memset(heap.data(), 0, 16);
    EXPECT_EQ(0, add(reinterpret_cast<uint64_t>(heap.data()), 2));
    EXPECT_EQ(1, heap[8]);
    close_mr();
    settle();
    EXPECT_EQ(0, fi_mr_reg(b->domain, heap.data(), 8, kAccess, 0, 12, 0, &mr, nullptr));
    close_mr();
}

/* Nothing mapped, no rights: errors, after which the connection goes on */
TEST_P(Parts, AllMemoryHasHoles)
{
    open_parts();
    const size_t page = static_cast<size_t>(getpagesize());
    std::vector<char> data = pattern(100, 1), got(100), wide(2 * page);
    Pages pages(5 * page);

    ASSERT_EQ(0, fi_mr_reg(b->domain, nullptr, SIZE_MAX, kAccess, 0, 11, 0, &mr, nullptr));
    /* one page to read and write, one to read, one without rights, two to read and write */
    ASSERT_EQ(0, mprotect(pages.start + page, page, PROT_READ));
    ASSERT_EQ(0, mprotect(pages.start + 2 * page, page, PROT_NONE));
    for (int round = 0; round < 2; round++) {
        EXPECT_EQ(0, write(pages.at(), data));
        EXPECT_EQ(0, read(pages.at() + page, got));
        EXPECT_EQ(std::vector<char>(100), got);
        EXPECT_EQ(0, read(pages.at(), wide)); /* out of two mappings */
        EXPECT_EQ(FI_EACCES, write(pages.at() + page, data));
        EXPECT_EQ(FI_EACCES, add(pages.at() + page, 1));
        EXPECT_EQ(FI_EACCES, write(pages.at() + page - 10, data));
        EXPECT_EQ(FI_EINVAL, write(pages.at() + 2 * page, data));
        EXPECT_EQ(FI_EINVAL, read(pages.at() + 2 * page - 10, got));
        EXPECT_EQ(FI_EINVAL, add(pages.at() + 2 * page, 1));
        EXPECT_EQ(FI_EINVAL, read(64, got));
        EXPECT_EQ(FI_EINVAL, add(64, 1));
        EXPECT_EQ(FI_EINVAL, read(UINT64_MAX - 200, got));
        EXPECT_EQ(FI_EINVAL, read(UINT64_MAX - 20, got)); /* the end lies before the beginning */
        EXPECT_EQ(0, write(pages.at() + 3 * page, wide));
    }
    close_mr();
}

/* Memory that grows, and memory that is unmapped after peers have used it */
TEST_P(Parts, AllMemoryChanges)
{
    open_parts();
    const size_t page = static_cast<size_t>(getpagesize());
    std::vector<char> data = pattern(3 * page, 1), got(3 * page);
    auto pages = std::make_unique<Pages>(3 * page);
    uint64_t at = pages->at();

    ASSERT_EQ(0, fi_mr_reg(b->domain, nullptr, SIZE_MAX, kAccess, 0, 11, 0, &mr, nullptr));
    ASSERT_EQ(0, mprotect(pages->start + page, 2 * page, PROT_NONE));
    EXPECT_EQ(0, add(at, 1));
    EXPECT_EQ(FI_EINVAL, add(at + page, 1));
    /* the mapping grows: the rest is a part of its own */
    ASSERT_EQ(0, mprotect(pages->start + page, 2 * page, PROT_READ | PROT_WRITE));
    EXPECT_EQ(0, add(at + page, 1));
    EXPECT_EQ(0, write(at, data));
    EXPECT_EQ(0, memcmp(pages->start, data.data(), data.size()));
    EXPECT_EQ(0, read(at, got));
    EXPECT_EQ(data, got);
    pages.reset();
    EXPECT_EQ(FI_EINVAL, add(at, 1));
    close_mr();
}

/* A reservation that is longer than a part */
TEST_P(Parts, AllMemoryInWindows)
{
    open_parts();
    const uint64_t window = uint64_t(1) << 30;
    Pages pages(3 * window);
    std::vector<char> data = pattern(300000, 1), got(300000);
    uint64_t border = (pages.at() + window - 1) & ~(window - 1);

    ASSERT_EQ(0, fi_mr_reg(b->domain, nullptr, SIZE_MAX, kAccess, 0, 11, 0, &mr, nullptr));
    for (uint64_t at : {border - 1000, border + window - 100000, border - 150000}) {
        EXPECT_EQ(0, write(at, data));
        EXPECT_EQ(0, memcmp(reinterpret_cast<char *>(at), data.data(), data.size()));
        EXPECT_EQ(0, read(at, got));
        EXPECT_EQ(data, got);
    }
    memset(reinterpret_cast<char *>(border - 8), 0, 16);
    EXPECT_EQ(0, add(border - 8, 2));
    EXPECT_EQ(1, *reinterpret_cast<char *>(border - 8));
    EXPECT_EQ(1, *reinterpret_cast<char *>(border));
    close_mr();
}

INSTANTIATE_TEST_SUITE_P(Modes, Parts,
                         testing::Values(int(MR_BASIC), int(MR_SCALABLE), 0,
                                         FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY));

} // namespace
