# SPDX-License-Identifier: Apache-2.0
"""Runs a plan as a job array on a Slurm of one node: one task is killed and requeued, and the merged
rows hold every planned point once. Points of several ranks are started by srun."""
import getpass
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time

# A requeued task may start when its old credential has expired: after 120 s unless told otherwise.
PROGRAMS = ["sbatch", "srun", "squeue", "scontrol", "slurmctld", "slurmd", "munged"]
SLURM_CONF = """
ClusterName=unmask
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
SlurmctldPort={controller}
SlurmdPort={daemon}
AuthType=auth/munge
AuthInfo=socket={place}/munge/socket,cred_expire=10
CredType=cred/munge
StateSaveLocation={place}/state
SlurmdSpoolDir={place}/spool
SlurmctldPidFile={place}/slurmctld.pid
SlurmdPidFile={place}/slurmd.pid
SlurmctldLogFile={place}/slurmctld.log
SlurmdLogFile={place}/slurmd.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SchedulerParameters=batch_sched_delay=0,sched_interval=1
ReturnToService=2
JobAcctGatherType=jobacct_gather/none
KillWait=2
MinJobAge=300
SwitchType=switch/none
MpiDefault=none
NodeName={host} NodeAddr=127.0.0.1 CPUs=2 RealMemory=1000 State=UNKNOWN
PartitionName=all Nodes={host} Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:4
"""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_for(what, answer, seconds=90):
    end = time.time() + seconds
    while time.time() < end:
        found = answer()
        if found:
            return found
        time.sleep(0.2)
    raise AssertionError(f"waited {seconds} s in vain for {what}")


class Cluster:
    def __init__(self, place):
        self.place = place
        for name in ("munge", "state", "spool"):
            (place / name).mkdir()
        (place / "munge").chmod(0o711)
        key = place / "munge" / "key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        host = socket.gethostname().split(".")[0]
        conf = place / "slurm.conf"
        conf.write_text(SLURM_CONF.format(host=host, user=getpass.getuser(), place=place,
                                          controller=free_port(), daemon=free_port()))
        # One thread each: two tasks share the cores with whatever else the machine does.
        self.env = dict(os.environ, SLURM_CONF=str(conf), OMP_NUM_THREADS="1")
        munge = place / "munge"
        self.daemons = []
        self.start(["munged", "--foreground", "--force", f"--socket={munge}/socket",
                    f"--key-file={key}", f"--pid-file={munge}/pid", f"--log-file={munge}/log",
                    f"--seed-file={munge}/seed"])
        wait_for("munged", (munge / "socket").exists, 15)
        self.start(["slurmctld", "-D", "-i"])
        self.start(["slurmd", "-D", "-N", host])
        wait_for("an idle node", lambda: "idle" in self.call("sinfo", "-h", "-o", "%t"), 60)

    def start(self, command):
        log = open(self.place / f"{command[0]}.out", "w", encoding="utf-8")
        self.daemons.append(subprocess.Popen(command, env=self.env, stdout=log, stderr=log))

    def call(self, *command):
        done = subprocess.run(command, env=self.env, capture_output=True, text=True, check=False)
        return done.stdout

    def stop(self):
        self.call("scancel", "--signal=KILL", "--user", getpass.getuser())
        for daemon in reversed(self.daemons):
            daemon.terminate()
            try:
                daemon.wait(20)
            except subprocess.TimeoutExpired:
                daemon.kill()


def rows_in(folder):
    return [json.loads(line) for file in sorted(folder.rglob("part-*.jsonl"))
            for line in file.read_text().splitlines()]


def planned(program, experiment, runs):
    """Writes the job arrays of an experiment in two shards, and returns what was said."""
    made = subprocess.run([program, "plan", experiment, "--scheduler", "slurm", "--shards", "2",
                           "--output", runs, "--sbatch=--mem=100"],
                          capture_output=True, text=True, check=True)
    return made.stdout


def submitted(cluster, script):
    job = cluster.call("sbatch", "--parsable", str(script)).strip()
    assert job.isdigit(), "sbatch refused the script"
    return job


def wait_for_end(cluster, job):
    wait_for("the array's end", lambda: not cluster.call("squeue", "-h", "-j", job).strip(), 240)


def ids_of(program, runs, merged):
    """The points of all rows in a folder, as `unmask merge` joins them."""
    done = subprocess.run([program, "merge", runs, "-o", merged], capture_output=True, text=True,
                          check=False)
    assert done.returncode == 0, done.stderr + done.stdout
    return [json.loads(line)["point_id"] for line in merged.read_text().splitlines()]


def check(cluster, program, place, source):
    experiment = pathlib.Path(source) / "tests" / "cluster" / "array.toml"
    runs = place / "100% runs of it"  # as no one should name a folder
    said = planned(program, experiment, runs)
    assert "2 tasks" in said, said
    job = submitted(cluster, runs / "array.sh")
    # Killed in the middle of its work: after its first pass, before its last. The task of stories takes
    # seconds a point; that of word problems may be done before it is killed. Rows of a group are
    # written at its end, passes as they are measured.
    plan = subprocess.run([program, "run", experiment, "--dry-run"], capture_output=True, text=True, check=True)
    stories = {line.split("|")[1].strip() for line in plan.stdout.splitlines() if "| story |" in line}
    assert len(stories) == 6, plan.stdout
    wait_for("a first pass", lambda: any(f.stem in stories for f in runs.rglob("*.passes")))
    cluster.call("scontrol", "requeue", f"{job}_1")
    # A requeued task may wait; what it measured before is in its file, and the plan is not done.
    wait_for_end(cluster, job)
    ids = ids_of(program, runs, place / "rows.jsonl")
    assert len(ids) == 12 and len(set(ids)) == 12, ids
    parts = [row["point_id"] for row in rows_in(runs) if row["verdict"] != "FAILED"]
    assert sorted(parts) == sorted(ids), "a point was measured twice"
    taken_up = [row["samples"].get("taken_up", 0) for row in rows_in(runs) if row["point_id"] in stories]
    assert sum(taken_up) > 0, "the task was not requeued in its work, or its passes were measured again"


def check_ranks(cluster, program, place, source):
    """Two tasks, each of two ranks that srun starts, measure what the program measures with ranks of its own."""
    experiment = pathlib.Path(source) / "tests" / "cluster" / "ranks.toml"
    runs = place / "runs of ranks"
    said = planned(program, experiment, runs)
    assert "2 tasks of 2 ranks" in said, said
    own = place / "own"
    subprocess.run([program, "run", experiment, "--points={ranks=2}", "--no-progress", "--output", own],
                   env=cluster.env, capture_output=True, check=True)
    found = {}
    for row in map(json.loads, (own / "rows.jsonl").read_text().splitlines()):
        found[row["point_id"]] = row["answers_hash"]
    assert len(found) == 2, found
    for _ in range(2):  # the second time every point has a row, and all ranks leave
        wait_for_end(cluster, submitted(cluster, runs / "array-2-ranks.sh"))
        rows = rows_in(runs)
        logs = "".join(log.read_text(errors="replace") for log in sorted(runs.glob("*.log")))
        assert {row["point_id"]: row.get("answers_hash") for row in rows} == found, logs
        assert len(rows) == 2 and {row["ranks"] for row in rows} == {2}, logs
        assert len({row["run_id"] for row in rows}) == 2, "one task measured the points of both"
    wait_for_end(cluster, submitted(cluster, runs / "array.sh"))
    ids = ids_of(program, runs, place / "rows-of-ranks.jsonl")
    assert len(ids) == 4 and len(set(ids)) == 4 and set(found) < set(ids), ids


def main():
    missing = [p for p in PROGRAMS if not shutil.which(p, path=os.environ["PATH"] + ":/usr/sbin")]
    if missing:
        print("NOT RUN: needs Slurm and munge; missing:", ", ".join(missing))
        return 77
    os.environ["PATH"] += ":/usr/sbin"
    with tempfile.TemporaryDirectory() as folder:
        place = pathlib.Path(folder)
        place.chmod(0o755)
        cluster = None
        try:
            cluster = Cluster(place)
            for one in (check, check_ranks):
                one(cluster, os.environ["UNMASK_PROGRAM"], place, os.environ["UNMASK_SOURCE"])
        except AssertionError:
            for log in sorted(place.rglob("*.log")) + sorted(place.glob("*.out")):
                print(f"---- {log.name}\n{log.read_text(errors='replace')[-3000:]}")
            raise
        finally:
            if cluster:
                cluster.stop()
    print("a killed and requeued task lost nothing and measured nothing twice; ranks of srun measured each point once")
    return 0


if __name__ == "__main__":
    sys.exit(main())
