# The libraries of a second real UCX, for test/real/own_ucx.sh: from the source that configure found,
# with another configuration and another version. Variables:
#   source    the source of UCX        ucx       config.h's directory
#   version   the version that the     headers   how to find UCX's installed headers
#             libraries claim
# The results are libuc*.so.0, as UCX installs them, and libuc*.a.

libraries = ucm ucs uct ucp

# The lists of sources are those of UCX's Makefile.am, without the parts of single devices
# and of statistics.
listed  = $(shell sed -nE -e '/^lib$1_la_SOURCES *\+?=/,/[^\\]$$/!d' \
              -e 's,^[[:space:]]*([a-z0-9_/]+)\.c( .*)?$$,$1/\1,p' $(source)/src/$1/Makefile.am)
stats   = ucs/stats/client_server ucs/stats/serialization ucs/stats/libstats
objects = $(patsubst %,objects/%.o,$(filter-out $(stats),$(call listed,$1)))

CPPFLAGS = -D_GNU_SOURCE -DHAVE_CONFIG_H -DCPU_FLAGS= -DUCX_MODULE_DIR='"/nonexistent"' \
    -DUCX_CONFIG_DIR='"/nonexistent"' -I$(ucx) -I$(source)/src -I$(source) $(headers)
objects/ucm/%: CPPFLAGS += -DUCM_MALLOC_PREFIX=ucm_dl -fno-strict-aliasing -DUSE_LOCKS=1 \
    -DMALLINFO_FIELD_TYPE=int
objects/uct/%: CPPFLAGS += -I$(source)/src/uct
# Nothing measures these libraries.
CFLAGS = -std=gnu99 -O0 -g0 -w -fPIC

all: $(libraries:%=lib%.so.0) $(libraries:%=lib%.a)

libucs.so.0: libucm.so.0
libuct.so.0: libucs.so.0 libucm.so.0
libucp.so.0: libuct.so.0 libucs.so.0 libucm.so.0
numa = $(shell sed -n 's/^.define HAVE_NUMA .*/-lnuma/p' $(ucx)/config.h)

.SECONDARY:
.SECONDEXPANSION:
lib%.so.0: lib%.a
	$(CC) -shared -Wl,-soname,$@ -Wl,--build-id=sha1 -Wl,-rpath,'$$ORIGIN' -o $@ \
	    -Wl,--whole-archive $< -Wl,--no-whole-archive $(filter %.so.0,$^) $(numa) -lm -ldl -lrt \
	    -lpthread

lib%.a: $$(call objects,$$*)
	$(AR) rcs $@ $^

numbers = $(subst ., ,$(version))
objects/ucp/core/ucp_version.o: $(source)/src/ucp/core/ucp_version.c.in
	@mkdir -p $(@D)
	sed -e 's/@VERSION@/$(version)/' -e 's/@MAJOR_VERSION@/$(word 1,$(numbers))/' \
	    -e 's/@MINOR_VERSION@/$(word 2,$(numbers))/' -e 's/@PATCH_VERSION@/$(word 3,$(numbers))/' \
	    $< >$(@:.o=.c)
	$(CC) $(CFLAGS) -c -o $@ $(@:.o=.c)

objects/%.o: $(source)/src/%.c
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) -c -o $@ $<
