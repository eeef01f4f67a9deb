# The plugin, the program mlff and the models for the LAMMPS of Spack: as packages/mlff/package.py
# in a repository of Spack packages. The archive, as `git archive` makes it (CONTRIBUTING.md, A
# release), lies in the folder where spack is called; sha256 is that of the archive.
import os

from spack_repo.builtin.build_systems.cmake import CMakePackage

from spack.package import *


class Mlff(CMakePackage):
    """Machine-learned force fields in LAMMPS: pair_style mlff evaluates PaiNN, ANI, Orb-v2 and
    NequIP networks in C, without Python and PyTorch; fix mlffprof measures any pair style."""

    homepage = "https://example.org/mlff"
    url = f"file://{os.getcwd()}/mlff-0.1.0.tar.gz"

    license("MIT", checked_by="mlff")

    version("0.1.0", sha256="@SHA256@")

    variant("cuda", default=False, description="device cuda, which has not run on a real GPU")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.20:", type="build")
    depends_on("libyaml@0.2:")
    depends_on("lammps@20240829:+plugin+lib")
    depends_on("cuda@12:", when="+cuda")

    def cmake_args(self):
        lmp = os.path.join(self.spec["lammps"].prefix.bin, "lmp")
        return [
            self.define("MLFF_LAMMPS", "config"),
            self.define("MLFF_LMP", lmp),
            self.define("MLFF_KOKKOS", "OFF"),
            self.define("MLFF_BUILD_TESTS", False),
            self.define("MLFF_BUILD_EXAMPLES", False),
            self.define_from_variant("MLFF_CUDA", "cuda"),
        ]

    @run_after("install")
    def install_models(self):
        install_tree("models", self.prefix.models)

    def setup_run_environment(self, env):
        env.prepend_path("LAMMPS_PLUGIN_PATH", self.prefix.lib.lammps.plugins)
        env.prepend_path("LAMMPS_PLUGIN_PATH", self.prefix.lib64.lammps.plugins)
        env.prepend_path("MLFF_MODELS", self.prefix.models)
