# UCX's test suite, without a configured UCX: only the tests of UCT and UCP and what they stand on,
# linked with the installed libraries. For contrib/ucx-gtest, which says in variables:
#   source    the source of UCX        tests     its test/, with glex in the lists of transports
#   ucx       config.h's directory     headers   how to find UCX's installed headers
#                                      libraries and how to link with it
# The programs of libucs's own tests need UCX's build tree; they have nothing to do with transports.

gtest   := $(tests)/gtest
perflib := $(source)/src/tools/perf/lib
# The lists of sources are those of UCX's Makefile.am, but for tests of one kind of device: test_tag
# is for tag matching by InfiniBand, and calls functions of that.
listed  := $(shell sed -nE -e '/^gtest_SOURCES *=/,/^if /!d' \
               -e 's,^[[:space:]]*((common|uct(/tcp|/v2)?|ucp)/[a-z0-9_]+)\.cc.*,\1,p' \
               $(gtest)/Makefile.am)
suite   := $(filter-out uct/test_tag,$(listed))
frame   := $(shell sed -nE 's,^[[:space:]]*([a-z-]+)\.cc.*,common/googletest/\1,p' \
               $(gtest)/common/googletest/Makefile.am)
perf    := $(notdir $(basename $(wildcard $(perflib)/*.c $(perflib)/*.cc)))
objects := $(suite:%=gtest/%.o) $(frame:%=gtest/%.o) $(perf:%=perf/%.o)

CPPFLAGS = -DHAVE_CONFIG_H -DCPU_FLAGS='""' -DTOP_SRCDIR='"$(source)"' \
    -DGTEST_UCM_HOOK_LIB_DIR='""' -I$(ucx) -I$(tests) -I$(gtest) -I$(source)/src -I$(source) \
    $(headers)
# The tests are not worth optimising: what they measure is in the libraries.
CXXFLAGS = -std=c++11 -fopenmp -O0 -g0 -w
perf/%: CXXFLAGS = -std=c++11 -fopenmp -O2 -g0 -w -fno-exceptions -fno-rtti
CFLAGS   = -std=gnu99 -fopenmp -O2 -g0 -w

ucx-gtest: $(objects)
	$(CXX) -fopenmp -o $@ $^ $(libraries) -lucp -luct -lucs -lucm -ldl -lpthread

# The headers of most tests, which the compiler reads once
headers.h:
	printf '#include <%s>\n' uct/uct_test.h uct/uct_p2p_test.h ucp/ucp_test.h >$@

headers.h.gch: headers.h
	$(CXX) $(CPPFLAGS) $(CXXFLAGS) -x c++-header -o $@ $<

$(suite:%=gtest/%.o): headers.h.gch

gtest/%.o: $(gtest)/%.cc
	@mkdir -p $(@D)
	$(CXX) $(CPPFLAGS) $(CXXFLAGS) $(if $(filter $*,$(suite)),-include headers.h) -c -o $@ $<

perf/%.o: $(perflib)/%.cc
	@mkdir -p $(@D)
	$(CXX) $(CPPFLAGS) $(CXXFLAGS) -c -o $@ $<

perf/%.o: $(perflib)/%.c
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) -c -o $@ $<
