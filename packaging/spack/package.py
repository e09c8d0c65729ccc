# Spack package: into a repository of your own, as packages/openglex/package.py
from spack.package import *


class Openglex(AutotoolsPackage):
    """GLEX, the interface of the Tianhe interconnect, in software; a UCX transport and a libfabric
    provider over it."""

    maintainers = []
    license("BSD-3-Clause")
    version("main", branch="main")

    variant("libfabric", default=True, description="the libfabric provider")
    variant("udmon", default=False, description="monitoring over InfiniBand UD")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("autoconf", type="build")
    depends_on("automake", type="build")
    depends_on("libtool", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("ucx@1.13:1.22")
    depends_on("libfabric@1.17:", when="+libfabric")
    depends_on("rdma-core", when="+udmon")
    depends_on("openssl", when="+udmon")
    depends_on("sqlite", when="+udmon")
    depends_on("libmicrohttpd", when="+udmon")
    depends_on("curl", when="+udmon")
    depends_on("json-c", when="+udmon")
    depends_on("snappy", when="+udmon")
    depends_on("ncurses", when="+udmon")

    # A transport is made of UCX's internal headers: its source, of exactly the version above.
    resource(
        name="ucx-source",
        git="https://github.com/openucx/ucx.git",
        tag="v1.18.1",
        placement="ucx-source",
        when="^ucx@1.18.1",
    )

    def autoreconf(self, spec, prefix):
        Executable("./autogen.sh")()

    def configure_args(self):
        spec = self.spec
        return [
            "--with-ucx=" + spec["ucx"].prefix,
            "--with-ucx-source=ucx-source",
            "--disable-tests",
            "--disable-commatrix",
            "--disable-mcsm",
            "--disable-inm",
            *self.with_or_without("libfabric"),
            *self.enable_or_disable("udmon"),
        ]
