"""A Slurm of one node, started by the test in its own folder: munged, slurmctld and slurmd, without systemd."""

import os
import shutil
import signal
import socket
import subprocess
import time

import processes
import pytest

DAEMONS = ("munged", "slurmctld", "slurmd")
CONF = """ClusterName=mlfftest
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,bf_interval=1
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
ReturnToService=2
KillWait=2
JobRequeue=1
NodeName={host} NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN
PartitionName=test Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


def free_ports(n):
    sockets = [socket.socket() for _ in range(n)]
    for s in sockets:
        s.bind(("127.0.0.1", 0))
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


class Slurm:
    """Commands of a running Slurm; `folder` has its logs."""

    def __init__(self, folder):
        self.folder, self.daemons = folder, []
        self.env = {**os.environ, "SLURM_CONF": os.path.join(folder, "slurm.conf")}

    def start(self):
        os.makedirs(os.path.join(self.folder, "state"))
        os.makedirs(os.path.join(self.folder, "spool"))
        key = os.path.join(self.folder, "munge.key")
        with open(key, "wb") as f:
            f.write(os.urandom(128))
        os.chmod(key, 0o600)
        with open(self.env["SLURM_CONF"], "w", encoding="ascii") as f:
            f.write(CONF.format(host=socket.gethostname().split(".")[0], folder=self.folder, ports=free_ports(2)))
        munge = [
            item
            for name in ("socket", "pid-file", "log-file", "seed-file")
            for item in ("--" + name, os.path.join(self.folder, "munge." + name.split("-", maxsplit=1)[0]))
        ]
        self.daemon(["munged", "--foreground", "--force", "--key-file", key, *munge])
        self.wait(lambda: os.path.exists(os.path.join(self.folder, "munge.socket")), 20, "munged has no socket")
        self.daemon(["slurmctld", "-D"])
        self.daemon(["slurmd", "-D"])
        self.wait(lambda: "idle" in self.run("sinfo", "-h", "-o", "%T"), 60, "the node did not become idle")

    def daemon(self, command):
        name = command[0]
        path = shutil.which(name) or "/usr/sbin/" + name
        with open(os.path.join(self.folder, name + ".out"), "wb") as out:
            self.daemons.append(
                subprocess.Popen([path, *command[1:]], env=self.env, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
            )

    def stop(self):
        self.run("scancel", "--user", "root", "--signal=KILL")
        for process in reversed(self.daemons):
            process.send_signal(signal.SIGTERM)
        for process in reversed(self.daemons):
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()

    def run(self, *command, cwd=None, **more):
        return processes.merged(command, env={**self.env, **more}, cwd=cwd).stdout

    def wait(self, condition, seconds, what):
        limit = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > limit or any(d.poll() is not None for d in self.daemons):
                logs = "".join(
                    f"--- {name}\n" + open(os.path.join(self.folder, name), errors="replace").read()[-1500:]
                    for name in sorted(os.listdir(self.folder))
                    if name.endswith((".out", ".log"))
                )
                raise RuntimeError(f"{what}\n{logs}")
            time.sleep(0.2)

    def states(self):
        """id -> state of the jobs that are not done; arrays have an entry per task."""
        lines = self.run("squeue", "-h", "-r", "-o", "%i %T").split("\n")
        return dict(line.split() for line in lines if len(line.split()) == 2)


@pytest.fixture(scope="session")
def slurm(tmp_path_factory):
    missing = [name for name in DAEMONS if not shutil.which(name) and not os.path.exists("/usr/sbin/" + name)]
    if missing:
        pytest.skip(
            f"Slurm is not installed here ({', '.join(missing)}): apt-get install slurmctld slurmd slurm-client munge"
        )
    if os.geteuid() != 0:
        pytest.skip("only root can start a Slurm of its own")
    cluster = Slurm(str(tmp_path_factory.mktemp("slurm")))
    try:
        try:
            cluster.start()
        except RuntimeError as error:
            pytest.skip(f"Slurm's daemons do not run on this machine: {error}")
        yield cluster
    finally:
        cluster.stop()
