"""mlff check without a GPU: reports all the same, exits with 3 where one was asked for, writes JSON."""

import json
import os
import subprocess
import tempfile
import unittest

MLFF = os.environ.get("MLFF", "mlff")


def check(*arguments, **environment):
    env = {**os.environ, "CUDA_VISIBLE_DEVICES": "", **environment}
    return subprocess.run(
        [MLFF, "check", *arguments], env=env, stdin=subprocess.DEVNULL, capture_output=True, check=False
    )


class Check(unittest.TestCase):
    def test_text(self):
        done = check()
        text = done.stdout.decode()
        self.assertEqual(done.returncode, 0, text)
        self.assertEqual(check("--gpu").returncode, 3)
        for word in (
            "libyaml",
            "kernels generic",
            "mixed    amx ",
            "avx512_bf16 ",
            "huge pages ",
            "cuda ",
            "GPU-aware",
            "no usable GPU: ",
        ):
            self.assertIn(word, text)

    def test_json(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "check.json")
            self.assertEqual(check("--gpu", "--json", path).returncode, 3)
            with open(path, encoding="utf-8") as f:
                found = json.load(f)
        self.assertEqual(found["devices"], [])
        self.assertEqual(found["cuda"]["n_usable"], 0)
        self.assertTrue(found["cuda"]["why_none"])
        self.assertIn("generic", found["kernels"])
        for name in ("amx", "avx512_bf16"):
            self.assertRegex(found["mixed"], rf"{name} (yes|no: not [a-z]+)")
        self.assertIn(found["huge_pages"], ("always", "madvise", "never", ""))
        self.assertGreater(found["processors"], 0)

    def test_mpi_is_looked_for(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "check.json")
            check("--json", path, MPICH_GPU_SUPPORT_ENABLED="1")
            with open(path, encoding="utf-8") as f:
                self.assertIs(json.load(f)["mpi"]["gpu_aware"], True)

    def test_usage(self):
        self.assertEqual(check("--json").returncode, 2)
        self.assertEqual(check("file").returncode, 2)
        self.assertEqual(check("--device", "cpu").returncode, 2)
        done = check("--json", "/nowhere/check.json")
        self.assertEqual(done.returncode, 2)
        self.assertIn("/nowhere/check.json", done.stderr.decode())


if __name__ == "__main__":
    unittest.main()
