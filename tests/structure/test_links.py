"""What the built programs link: LibTorch in am-rank alone, gRPC never beside it, and no Gloo object of ours."""
import subprocess

import pytest


def libraries(program):
    return subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("name", ["amctl", "am-worker", "am-tokenize"])
def test_the_control_plane_starts_without_libtorch(bin_dir, name):
    if not (bin_dir / name).exists():
        pytest.skip(f"{name} is not built")
    assert "libtorch" not in libraries(bin_dir / name)


def test_the_engine_never_links_grpc_or_protobuf(bin_dir):
    linked = libraries(bin_dir / "am-rank")
    assert "libtorch_cpu" in linked
    assert "libgrpc" not in linked and "libprotobuf" not in linked


def test_the_engine_makes_no_gloo_object_of_its_own(bin_dir):
    # Debian's Gloo headers are older than the Gloo inside LibTorch: an object made here would have another layout than its code expects.
    symbols = subprocess.run(["nm", "-C", "--defined-only", bin_dir / "am-rank"], capture_output=True, text=True, check=True).stdout
    defined = [line for line in symbols.splitlines() if " gloo::" in line]
    assert not defined, "\n".join(defined[:10])
