"""am-controller and the commands that ask it, with a shell script as the rank (tests/fakes/rank.sh): the life of jobs, kill -9 of the
controller under them, a standby, tokens."""
import json
import pathlib
import random
import signal
import stat
import subprocess
import time

import psutil
import pytest
from support.product import alive, jsonl, wait_until

ROOT = pathlib.Path(__file__).resolve().parents[2]

# A rank does what the file `behaviour` in its job's checkpoint folder says, and leaves a line about its start there.
DISPATCH = (r"""dir=$(sed -n 's/^ *"dir": "\(.*\)",*$/\1/p' $spec | head -n 1); echo "$RANK/$ATTEMPT $$" >> $dir/starts; . $dir/behaviour""")


class Daemon:
    """An am-controller with its agent, in the folder of a product."""

    def __init__(self, product):
        self.product = product
        self.state = product.folder / "state" / "amctl"
        self.controllers = []

    def start(self, *options, wait=True):
        folder = self.product.folder / f"controller-{len(self.controllers)}"
        folder.mkdir()
        (self.product.folder / "run").mkdir(mode=0o700, exist_ok=True)
        environment = self.product.environment(AMCTL_RANK_PROGRAM=str(ROOT / "tests" / "fakes" / "rank.sh"), FAKE_RANK=DISPATCH)
        out, err = open(folder / "stdout.txt", "wb"), open(folder / "stderr.txt", "wb")
        process = subprocess.Popen([str(self.product.bin_dir / "am-controller"), "--slots", "8", *options], cwd=folder, env=environment,
                                   stdout=out, stderr=err, stdin=subprocess.DEVNULL, start_new_session=True)
        process.folder = folder
        self.controllers.append(process)
        if wait:
            self.expect_ready(process)
        return process

    def ready(self, process):
        return (process.folder / "stdout.txt").read_text().startswith("am-controller ready on ")

    def expect_ready(self, process):
        wait_until(lambda: self.ready(process) or process.poll() is not None, 30, "am-controller is ready")
        assert process.poll() is None, (process.folder / "stderr.txt").read_text()

    def address(self, process):
        return (process.folder / "stdout.txt").read_text().split()[-1]

    def amctl(self, *arguments, **more):
        return self.product.amctl(*arguments, seconds=60, **more)

    def job(self, name, behaviour, *options, ranks=1):
        """Submits a job whose ranks do this, and returns its id."""
        folder = self.product.checkpoints(name)
        folder.mkdir()
        (folder / "behaviour").write_text(behaviour)
        result = self.amctl("submit", self.product.recipe(name), f"--nproc-per-node={ranks}", *options)
        assert result.status == 0, result
        return result.out.splitlines()[-1]

    def starts(self, name):
        path = self.product.checkpoints(name) / "starts"
        return [line.split()[0] for line in path.read_text().splitlines()] if path.exists() else []

    def show(self, job):
        result = self.amctl("get", "job", job, "--json")
        assert result.status == 0, result
        return json.loads(result.out)

    def expect_phase(self, job, phase, seconds=30):
        wait_until(lambda: self.show(job)["phase"] == phase, seconds, f"{job} is {phase}")

    def release(self, name):
        """Lets ranks go on that wait for it."""
        (self.product.checkpoints(name) / "go").touch()

    def agents(self):
        found = []
        for process in psutil.process_iter(["name", "cmdline"]):
            if process.info["name"] == "am-worker" and str(self.state) in (process.info["cmdline"] or []):
                found.append(process)
        return found

    def close(self):
        for controller in self.controllers:
            if controller.poll() is None:
                controller.kill()
                controller.wait(30)
        for agent in self.agents():
            tree = [agent, *agent.children(recursive=True)]
            for process in tree:
                try:
                    process.kill()
                except psutil.NoSuchProcess:
                    pass
            psutil.wait_procs(tree, 30)


# Waits for the file `go` without a busy loop of processes: a rank is a shell, and what it waits for is a file.
UNTIL_GO = "while [ ! -e $dir/go ]; do sleep 0.05; done; "


@pytest.fixture
def daemon(product):
    if not (product.bin_dir / "am-controller").exists():
        pytest.skip("am-controller is not built: scripts/build builds it, AMCTL_BIN_DIR names its folder")
    daemon = Daemon(product)
    yield daemon
    daemon.close()


# ---- the life of a job ----


def test_a_job_that_ends_well_is_waited_for_with_status_0(daemon):
    daemon.start()
    job = daemon.job("good", "echo to the log; hello; ready 0; step 1; checkpoint 1; finish completed 1", ranks=2)
    assert job.startswith("am-") and len(job) == 13
    result = daemon.amctl("wait", job)
    assert result.status == 0 and "Succeeded" in result.err, result
    shown = daemon.show(job)
    assert shown["phase"] == "Succeeded" and shown["exit_status"] == 0 and shown["name"] == "good"
    assert [rank["exit_code"] for rank in shown["ranks"]] == [0, 0]
    parts = shown["goodput"]
    wall = (shown["ended_unix_ns"] - shown["submitted_unix_ns"]) / 1e9
    assert sum(parts.values()) == pytest.approx(wall, abs=0.2)
    log = daemon.state / "jobs" / job / "attempt-1" / "rank-1.log"
    assert log.read_text() == "to the log\n"
    assert sorted(daemon.starts("good")) == ["0/1", "1/1"]


def test_a_job_that_fails_says_which_rank_and_why(daemon):
    daemon.start()
    job = daemon.job("bad", "hello; case $RANK in 1) echo the last line; fail internal 'the real reason' 70;; *) hang;; esac",
                     "--restart.max_restarts=0", ranks=2)
    result = daemon.amctl("wait", job)
    assert result.status == 1 and "the real reason" in result.err, result
    page = daemon.amctl("describe", job)
    assert page.status == 0, page
    assert "rank 1 exited with status 70 (internal error): the real reason" in page.out
    assert "exited with status 70" in page.out and "rank 1 failed" in page.out
    assert "Events" in page.out and "submitted" in page.out
    described = json.loads(daemon.amctl("describe", job, "--json").out)
    assert described["ranks"][0]["stopped_because"] == "rank 1 failed"
    assert described["events"][0]["kind"] == "submitted"


def test_a_cancelled_job_saves_and_leaves(daemon):
    daemon.start()
    job = daemon.job("long", "hello; ready 0; step 1; await_leave 2")
    daemon.expect_phase(job, "Running")
    result = daemon.amctl("cancel", job, "--reason", "wrong data")
    assert result.status == 0, result
    result = daemon.amctl("wait", job)
    assert result.status == 5, result
    assert daemon.show(job)["checkpoint"].endswith("epoch_0_step_2")


def test_a_job_that_does_not_leave_is_killed_at_once_with_now(daemon):
    daemon.start()
    job = daemon.job("deaf", "trap '' TERM INT; hello; ready 0; step 1; hang")
    daemon.expect_phase(job, "Running")
    assert daemon.amctl("cancel", job, "--now").status == 0
    assert daemon.amctl("wait", job).status == 5


def test_logs_follow_through_a_restart_to_the_end_byte_for_byte(daemon):
    daemon.start()
    job = daemon.job("talk", "hello; ready 0; printf 'attempt %s\\n\\200\\000\\r' $ATTEMPT; step $ATTEMPT; checkpoint $ATTEMPT;"
                     "while [ ! -e $dir/go$ATTEMPT ]; do sleep 0.05; done; [ $ATTEMPT = 1 ] && exit 70; printf end; finish completed 3")
    following = daemon.product.start("logs", job, "-f")
    path = pathlib.Path(following.stdout.name)
    for attempt in (1, 2):
        wait_until(lambda: b"attempt %d" % attempt in path.read_bytes(), 30, f"the log of attempt {attempt}")
        assert not following.finished()
        (daemon.product.checkpoints("talk") / f"go{attempt}").touch()
    assert following.wait(30).status == 0
    assert path.read_bytes() == b"attempt 1\n\x80\0\rattempt 2\n\x80\0\rend"
    first = daemon.product.start("logs", job, "--attempt=1", "--rank", 0)
    first.wait(30)
    assert pathlib.Path(first.stdout.name).read_bytes() == b"attempt 1\n\x80\0\r"


def test_logs_of_several_ranks_have_each_line_behind_its_rank(daemon):
    daemon.start()
    job = daemon.job("two", "echo one of $RANK; printf two; hello; ready 0; finish completed 1", ranks=2)
    assert daemon.amctl("wait", job).status == 0
    assert sorted(daemon.amctl("logs", job).out.splitlines()) == ["[0] one of 0", "[0] two", "[1] one of 1", "[1] two"]
    assert daemon.amctl("logs", job, "--rank", 1).out == "one of 1\ntwo"
    assert daemon.amctl("logs", job, "--rank", 1, "--tail", 3).out == "two"
    refused = daemon.amctl("logs", job, "--rank", 2)
    assert refused.status == 2 and "has the ranks 0 to 1" in refused.err


def test_events_follow_to_the_end_of_the_job(daemon):
    daemon.start()
    job = daemon.job("events", "hello; ready 0; step 1; " + UNTIL_GO + "finish completed 1")
    following = daemon.product.start("events", job, "-f", "--json")
    daemon.expect_phase(job, "Running")
    assert not following.finished()
    daemon.release("events")
    result = following.wait(30)
    assert result.status == 0, result
    events = [json.loads(line) for line in result.out.splitlines()]
    assert events[0]["kind"] == "submitted" and "Succeeded" in result.out
    assert [event["seq"] for event in events] == sorted({event["seq"] for event in events})


def test_the_environment_and_the_folder_of_submit_go_with_the_job(daemon):
    daemon.start()
    folder = daemon.product.checkpoints("mine")
    folder.mkdir()
    (folder / "behaviour").write_text('echo "$GREETING"; hello; ready 0; finish completed 1')
    recipe = daemon.product.recipe("mine", checkpoint={"checkpoint_dir": "../${WHERE}"})
    submitted = daemon.amctl("submit", recipe, "--nproc-per-node=1", env={"GREETING": "good day", "WHERE": folder.name})
    assert submitted.status == 0, submitted
    job = submitted.out.strip()
    assert daemon.amctl("wait", job).status == 0, daemon.amctl("describe", job)
    assert daemon.amctl("logs", job).out == "good day\n"


def test_the_same_token_returns_the_same_job(daemon):
    daemon.start()
    first = daemon.job("once", "hello; ready 0; finish completed 1", "--token", "t1")
    again = daemon.amctl("submit", daemon.product.folder / "once.yaml", "--nproc-per-node=1", "--token", "t1")
    assert again.status == 0 and again.out == first + "\n", again
    assert daemon.amctl("wait", first).status == 0
    assert daemon.starts("once") == ["0/1"]


def test_a_job_after_another_begins_when_that_has_succeeded(daemon):
    daemon.start()
    first = daemon.job("first", "hello; ready 0; " + UNTIL_GO + "finish completed 1")
    second = daemon.job("second", "hello; ready 0; finish completed 1", "--after", first)
    daemon.expect_phase(first, "Running")
    waiting = daemon.show(second)
    assert waiting["phase"] == "Pending" and first in waiting["why"]
    daemon.release("first")
    assert daemon.amctl("wait", second).status == 0
    listed = json.loads(daemon.amctl("get", "jobs", "--all", "--json").out)["jobs"]
    assert {job["id"]: job["phase"] for job in listed} == {first: "Succeeded", second: "Succeeded"}


def test_a_recipe_with_an_error_is_refused_with_its_place_and_not_queued(daemon):
    daemon.start()
    result = daemon.amctl("submit", daemon.product.recipe("wrong", step_scheduler={"max_steps": "many"}))
    assert result.status == 2 and "wrong.yaml:" in result.err and "max_steps" in result.err and result.out == "", result
    assert json.loads(daemon.amctl("get", "jobs", "--json").out) == {"jobs": []}


def test_a_job_that_could_never_run_is_refused(daemon):
    daemon.start()
    wait_until(lambda: json.loads(daemon.amctl("nodes", "--json").out)["nodes"], 30, "the node")
    folder = daemon.product.checkpoints("huge")
    folder.mkdir()
    result = daemon.amctl("submit", daemon.product.recipe("huge", step_scheduler={"local_batch_size": 1, "global_batch_size": 16}),
                          "--nproc-per-node=16")
    # Until the nodes that the controller knew have had time to come back it waits; then it is refused.
    if result.status == 0:
        job = daemon.show(result.out.splitlines()[-1])
        assert job["phase"] == "Pending" and job["why"], job
    else:
        assert result.status == 2 and "needs" in result.err, result


def test_a_drained_node_takes_no_new_job_until_it_is_undrained(daemon):
    daemon.start()
    wait_until(lambda: json.loads(daemon.amctl("nodes", "--json").out)["nodes"], 30, "the node")
    (node,) = json.loads(daemon.amctl("nodes", "--json").out)["nodes"]
    assert node["state"] == "up" and node["free_slots"] == node["slots"] == 8
    result = daemon.amctl("drain", node["name"], "--reason", "fan")
    assert result.status == 0 and "drained" in result.out, result
    job = daemon.job("later", "hello; ready 0; finish completed 1")
    assert daemon.show(job)["phase"] == "Pending"
    assert daemon.amctl("undrain", node["name"]).status == 0
    assert daemon.amctl("wait", job).status == 0
    assert daemon.amctl("drain", "nosuchnode").status == 2


# ---- the end of the controller ----


def test_jobs_survive_kill_9_of_the_controller_and_none_starts_twice(daemon):
    controller = daemon.start()
    names = [f"job{i}" for i in range(5)]
    jobs = [daemon.job(name, "hello; ready 0; step 1; " + UNTIL_GO + "step 2; finish completed 2") for name in names[:4]]
    for job in jobs:
        daemon.expect_phase(job, "Running")
    controller.kill()
    controller.wait(30)
    assert daemon.amctl("get", "jobs").status == 3
    daemon.release("job1")  # ends while nobody listens
    begun = time.monotonic()
    daemon.start()
    listed = {job["id"]: job for job in json.loads(daemon.amctl("get", "jobs", "--all", "--json").out)["jobs"]}
    assert set(listed) == set(jobs)
    wait_until(lambda: any(node["state"] == "up" for node in json.loads(daemon.amctl("nodes", "--json").out)["nodes"]), 30, "the agent is back")
    reattached = time.monotonic() - begun
    print(f"reattached {len(jobs)} running jobs {reattached:.2f} s after the start of the new controller (the commands that ask included)")
    jobs.append(daemon.job(names[4], "hello; ready 0; finish completed 1"))
    for name, job in zip(names, jobs):
        daemon.release(name)
        result = daemon.amctl("wait", job)
        assert result.status == 0, (name, result, daemon.amctl("describe", job).out)
    for name, job in zip(names, jobs):
        assert daemon.starts(name) == ["0/1"], name
        assert daemon.show(job)["attempt"] == 1


@pytest.mark.parametrize("kills,standing", [(8, 4), pytest.param(200, 50, marks=pytest.mark.slow)])
def test_kill_9_at_random_moments_loses_no_job_and_starts_none_twice(daemon, kills, standing):
    """Some jobs stand all the while, others come, run and end; each has the id that was answered, and each attempt starts once."""
    dice = random.Random(kills)
    controller = daemon.start("--slots", "64")
    product, takes = daemon.product, []
    jobs = {f"stands{i}": daemon.job(f"stands{i}", "hello; ready 0; step 1; " + UNTIL_GO + "finish completed 1") for i in range(standing)}
    for number in range(kills):
        name = f"job{number}"
        folder = product.checkpoints(name)
        folder.mkdir()
        (folder / "behaviour").write_text(f"hello; ready 0; step 1; sleep {dice.uniform(0, 0.5):.3f}; finish completed 1")
        arguments = ["submit", product.recipe(name), "--nproc-per-node=1", "--token", name]
        submitting = product.start(*arguments)
        time.sleep(dice.uniform(0, 0.15))  # the moment of the kill
        controller.kill()
        controller.wait(30)
        result = submitting.wait(30)
        assert result.status in (0, 3), result
        begun = time.monotonic()
        controller = daemon.start("--slots", "64")
        takes.append(time.monotonic() - begun)
        # Whoever got no answer asks again with the same token, and has one job.
        again = product.amctl(*arguments)
        assert again.status == 0, again
        assert result.status == 3 or result.out == again.out, (result, again)
        jobs[name] = again.out.strip()
    for name, job in jobs.items():
        daemon.release(name)
        result = daemon.amctl("wait", job)
        assert result.status == 0, (name, result, daemon.amctl("describe", job).out)
        assert daemon.starts(name) == ["0/1"], (name, daemon.amctl("describe", job).out)
    listed = json.loads(daemon.amctl("get", "jobs", "--all", "--json").out)["jobs"]
    assert sorted(job["id"] for job in listed) == sorted(jobs.values())
    takes.sort()
    print(f"{kills} kills under {standing} standing jobs: from start to ready {takes[len(takes) // 2]:.2f} s in the middle, {takes[-1]:.2f} s at most")


def test_the_controller_ends_on_term_and_leaves_the_jobs_running(daemon):
    controller = daemon.start()
    job = daemon.job("calm", "hello; ready 0; step 1; " + UNTIL_GO + "finish completed 1")
    daemon.expect_phase(job, "Running")
    waiting = daemon.product.start("wait", job)
    wait_until(lambda: b"Running" in pathlib.Path(waiting.stderr.name).read_bytes(), 30, "amctl wait waits")
    controller.send_signal(signal.SIGTERM)
    assert controller.wait(30) == 0
    assert not list(daemon.product.folder.glob("run/amctl/controller.sock")), "its socket is gone"
    (agent,) = daemon.agents()
    assert any(child.is_running() for child in agent.children(recursive=True))
    daemon.start()
    daemon.release("calm")
    assert waiting.wait(60).status == 0, "wait outlives the controller"
    assert daemon.starts("calm") == ["0/1"]


def test_a_second_controller_stands_by_and_takes_over(daemon):
    first = daemon.start()
    job = daemon.job("kept", "hello; ready 0; step 1; " + UNTIL_GO + "finish completed 1")
    daemon.expect_phase(job, "Running")
    second = daemon.start(wait=False)
    wait_until(lambda: "standby" in (second.folder / "stderr.txt").read_text(), 30, "the second one stands by")
    assert not daemon.ready(second)
    first.kill()
    first.wait(30)
    daemon.expect_ready(second)
    daemon.release("kept")
    assert daemon.amctl("wait", job).status == 0
    assert daemon.starts("kept") == ["0/1"]
    assert len(daemon.agents()) == 1


def test_an_agent_that_dies_takes_its_ranks_along_and_is_replaced(daemon):
    daemon.start()
    job = daemon.job("moved", "hello; ready 0; step $ATTEMPT; checkpoint $ATTEMPT; [ $ATTEMPT = 2 ] || hang; finish completed 2")
    daemon.expect_phase(job, "Running")
    (agent,) = daemon.agents()
    ranks = agent.children(recursive=True)
    agent.kill()
    assert daemon.amctl("wait", job).status == 0
    assert not [rank for rank in ranks if alive(rank)]
    assert daemon.starts("moved") == ["0/1", "0/2"]


def test_after_the_end_of_controller_and_agent_the_jobs_go_on_from_their_checkpoints(daemon):
    controller = daemon.start()
    job = daemon.job("again", "hello; ready 0; step $ATTEMPT; checkpoint $ATTEMPT; [ $ATTEMPT = 2 ] || hang; finish completed 2")
    waiting = daemon.job("waiting", "hello; ready 0; finish completed 1", "--after", job)
    wait_until(lambda: daemon.show(job)["checkpoint"], 30, "the first checkpoint")
    (agent,) = daemon.agents()
    controller.kill()
    agent.kill()
    controller.wait(30)
    daemon.start()
    assert daemon.amctl("wait", job).status == 0
    assert daemon.amctl("wait", waiting).status == 0
    assert daemon.starts("again") == ["0/1", "0/2"] and daemon.starts("waiting") == ["0/1"]
    shown = daemon.show(job)
    assert shown["restarts"] == 1 and shown["checkpoint"].endswith("epoch_0_step_2")


# ---- who may what ----


def test_a_port_is_for_bearers_of_tokens_alone(daemon):
    tokens = daemon.product.folder / "tokens"

    def token(name, role):
        environment = daemon.product.environment()
        made = subprocess.run([daemon.product.bin_dir / "am-controller", "--token-file", tokens, "--add-token", f"{name}:{role}"],
                              env=environment, capture_output=True, text=True, check=True)
        path = daemon.product.folder / f"{name}.token"
        path.write_text(made.stdout)
        return path

    viewer, ada, bob = token("viewer", "viewer"), token("ada", "submitter"), token("bob", "submitter")
    assert stat.S_IMODE(tokens.stat().st_mode) == 0o600
    controller = daemon.start("--listen", "127.0.0.1:0", "--token-file", str(tokens))
    server = f"--server={daemon.address(controller)}"
    refused = daemon.amctl("get", "jobs", server)
    assert refused.status == 4 and "token" in refused.err, refused
    assert daemon.amctl("get", "jobs", server, "--token-file", viewer).status == 0
    folder = daemon.product.checkpoints("mine")
    folder.mkdir()
    (folder / "behaviour").write_text("hello; ready 0; step 1; await_leave 2")
    recipe = daemon.product.recipe("mine")
    assert daemon.amctl("submit", recipe, server, "--token-file", viewer).status == 4
    submitted = daemon.amctl("submit", recipe, server, "--nproc-per-node=1", "--token-file", ada)
    assert submitted.status == 0, submitted
    job = submitted.out.strip()
    refused = daemon.amctl("cancel", job, server, "--token-file", bob)
    assert refused.status == 4 and "belongs to ada" in refused.err, refused
    assert daemon.amctl("cancel", job, server, "--token-file", ada).status == 0
    assert daemon.amctl("wait", job, server, "--token-file", viewer).status == 5
    audit = jsonl(daemon.state / "audit.jsonl")
    assert [(line["who"], line["what"], line["status"]) for line in audit] == [
        ("viewer", "Submit", "PERMISSION_DENIED"), ("ada", "Submit", "OK"), ("bob", "CancelJob", "PERMISSION_DENIED"), ("ada", "CancelJob", "OK")]
    assert audit[1]["job"] == job


def test_the_socket_and_the_state_are_for_this_user_alone(daemon):
    daemon.start()
    socket = daemon.product.folder / "run" / "amctl" / "controller.sock"
    assert stat.S_IMODE(socket.stat().st_mode) == 0o600
    assert stat.S_IMODE(socket.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(daemon.state.stat().st_mode) == 0o700


# ---- the command line ----


@pytest.mark.parametrize("words", [["get", "jobs"], ["describe", "am-a"], ["events"], ["logs", "am-a"], ["cancel", "am-a"], ["wait", "am-a"],
                                   ["nodes"], ["drain", "x"], ["undrain", "x"]])
def test_without_a_controller_every_command_exits_with_3_and_says_where_it_looked(product, words):
    result = product.amctl(*words)
    assert result.status == 3 and "controller.sock cannot be reached" in result.err and result.out == "", result


@pytest.mark.parametrize("words,said", [
    (["get"], "is missing"),
    (["get", "job"], "ID is missing"),
    (["get", "cats"], "expected jobs, job ID or nodes"),
    (["wait", "a", "b"], "unexpected word 'b'"),
    (["logs", "a", "--rank", "x"], "--rank: expected an integer of at least 0"),
    (["logs", "a", "-x"], "unknown option -x"),
    (["submit"], "RECIPE is missing"),
    (["submit", "nosuch.yaml"], "nosuch.yaml"),
    (["submit", "r.yaml", "--priority", "high"], "--priority"),
])
def test_bad_usage_exits_with_2(product, words, said):
    (product.folder / "run").mkdir(mode=0o700, exist_ok=True)
    result = product.amctl(*words)
    assert result.status == 2 and said in result.err, result


def test_the_place_of_the_controller_is_an_option_before_the_environment_before_a_file(product):
    config = product.folder / ".config" / "amctl" / "config.yaml"
    config.parent.mkdir(parents=True)
    config.write_text("server: unix:/nonexistent/file.sock\n")
    assert "unix:/nonexistent/file.sock cannot be reached" in product.amctl("nodes", env={"XDG_CONFIG_HOME": ""}).err
    named = {"env": {"XDG_CONFIG_HOME": ""}, "prefix": ["env", "AMCTL_SERVER=unix:/nonexistent/env.sock"]}
    assert "unix:/nonexistent/env.sock cannot be reached" in product.amctl("nodes", **named).err
    assert "unix:/nonexistent/option.sock cannot be reached" in product.amctl("nodes", "--server", "unix:/nonexistent/option.sock", **named).err
    config.write_text("sever: x\n")
    result = product.amctl("nodes", env={"XDG_CONFIG_HOME": ""})
    assert result.status == 2 and "config.yaml:1:1: error: sever" in result.err, result
