# Spack package: into a repository of your own, as packages/openglex/package.py, with your clone of
# openglex in the line "git". Read by Python and not tried with Spack.
from spack.package import *

# A transport is made of UCX's internal headers: of exactly the version that it is for.
UCX = ("1.13.1", "1.14.1", "1.15.0", "1.16.0", "1.17.0", "1.18.1", "1.19.1", "1.20.1", "1.21.0",
       "1.22.0")


class Openglex(AutotoolsPackage):
    """GLEX, the interface of the Tianhe interconnect, in software; a UCX transport and a libfabric
    provider over it."""

    git = "file:///path/to/your/clone/of/openglex"

    license("BSD-3-Clause")
    version("main", branch="main")

    variant("libfabric", default=True, description="the libfabric provider")
    variant("heap", default=False, description="glexrun --shared-heap")
    variant("verbs", default=True, description="monitoring's transport ud_mon over InfiniBand")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("m4", type="build")
    depends_on("autoconf", type="build")
    depends_on("automake", type="build")
    depends_on("libtool", type="build")
    depends_on("ucx@" + ",".join("=" + v for v in UCX))
    depends_on("libfabric@1.17:", when="+libfabric")
    depends_on("jemalloc@5.3:", when="+heap")
    depends_on("rdma-core", when="+verbs")

    for v in UCX:
        resource(
            name="ucx-source-" + v,
            git="https://github.com/openucx/ucx.git",
            tag="v" + v,
            placement="ucx-source",
            when="^ucx@=" + v,
        )

    def autoreconf(self, spec, prefix):
        Executable("./autogen.sh")()

    def configure_args(self):
        return [
            "--with-ucx=" + self.spec["ucx"].prefix,
            "--with-ucx-source=" + join_path(self.stage.source_path, "ucx-source"),
            "--disable-tests",
            # Their libraries are not all in Spack.
            "--disable-udmon",
            "--disable-commatrix",
            "--disable-mcsm",
            "--disable-inm",
            *self.with_or_without("libfabric", activation_value="prefix"),
            "--with-jemalloc=" + (self.spec["jemalloc"].prefix if "+heap" in self.spec else "no"),
            *self.with_or_without("verbs"),
        ]

    def setup_run_environment(self, env):
        if "+libfabric" in self.spec:
            env.prepend_path("FI_PROVIDER_PATH", self.prefix.lib.libfabric)
