"""amctl run with a shell script as its rank (tests/fakes/rank.sh): deaths, signals, restarts, output, and what is left behind."""
import os
import pathlib
import signal
import subprocess

import psutil
import pytest
from support.product import alive, wait_until

ROOT = pathlib.Path(__file__).resolve().parents[2]
TRAINS_FOR_EVER = "hello; ready 0; step 1; hang"


class Supervised:
    """Starts amctl on a recipe whose ranks do what a line of shell says."""

    def __init__(self, product):
        self.product = product
        self.recipe = product.recipe()

    def start(self, script, *arguments, ranks=1, env=None, **more):
        environment = {"AMCTL_RANK_PROGRAM": str(ROOT / "tests" / "fakes" / "rank.sh"), "FAKE_RANK": script, **(env or {})}
        return self.product.start("run", self.recipe, f"--nproc-per-node={ranks}", *arguments, env=environment, **more)

    def run(self, script, *arguments, **more):
        result = self.start(script, *arguments, **more).wait(60)
        return result

    def attempts(self):
        return sorted(path.name for path in (self.product.folder / "state").glob("amctl/jobs/*/attempt-*"))

    def log(self, rank=0, attempt=1):
        (path,) = (self.product.folder / "state").glob(f"amctl/jobs/*/attempt-{attempt}/rank-{rank}.log")
        return path.read_bytes()


@pytest.fixture
def supervised(product):
    return Supervised(product)


def shows(running, text, stream="stdout"):
    """Waits until amctl has shown this."""
    def there():
        return running.finished() or text.encode() in pathlib.Path(getattr(running, stream).name).read_bytes()
    wait_until(there, 30, f"{text!r} on {stream}")


def pids_in(text):
    return [psutil.Process(int(word)) for word in text.split() if psutil.pid_exists(int(word))]


# ---- the end of a rank ----


def test_a_job_that_ends_well_exits_with_0_and_prints_its_lines(supervised):
    result = supervised.run("hello; ready 0; step 1; checkpoint 1; finish completed 1")
    assert result.status == 0, result
    assert result.out == ("step 1 | epoch 0 | loss 1.5000 | grad_norm 2.0000 | mem: 0.50 GiB | tps 100.00 | lr 1.00e-05\n"
                          "Saving checkpoint to checkpoints/epoch_0_step_1\n")


def test_a_rank_killed_by_a_signal_is_named_and_the_group_restarts(supervised):
    result = supervised.run("hello; ready 0; [ $RANK = 0 ] && step $ATTEMPT && checkpoint 10;"
                            "case $RANK/$ATTEMPT in 1/1) await rendezvous; kill -9 $$;; 0/1) hang;; esac; finish completed 11", ranks=2)
    assert result.status == 0, result
    assert "rank 1 was killed by signal 9 (SIGKILL); restarting" in result.err
    assert "attempt 2 of 4" in result.err
    assert "attempt 2 of 4 is ready" in result.err and "s after rank 1 died" in result.err
    assert supervised.attempts() == ["attempt-1", "attempt-2"]


def test_a_restart_names_the_checkpoint_that_it_goes_on_from(supervised):
    result = supervised.run("hello; ready 0; checkpoint 10; [ $ATTEMPT = 2 ] || exit 70; finish completed 11")
    assert result.status == 0, result
    assert "rank 0 exited with status 70 (internal error); restarting from checkpoint epoch_0_step_10, attempt 2 of 4" in result.err


def test_a_rank_that_dies_before_hello_is_retried_until_it_makes_no_sense(supervised):
    result = supervised.run("echo the reason; exit 3")
    assert result.status == 1, result
    assert "rank 0 exited with status 3; 3 attempts in a row made no progress" in result.err
    assert "  | the reason\n" in result.err
    assert supervised.attempts() == ["attempt-1", "attempt-2", "attempt-3"]


def test_restarts_end_at_max_restarts(supervised):
    result = supervised.run("hello; ready 0; step $ATTEMPT; kill -9 $$", "--restart.max_restarts=1")
    assert result.status == 6, result
    assert "no restart is left (restart.max_restarts: 1)" in result.err
    assert supervised.attempts() == ["attempt-1", "attempt-2"]


def test_a_user_error_is_not_retried(supervised):
    result = supervised.run("hello; fail user 'data.jsonl:3: not JSON' 2", ranks=2)
    assert result.status == 2, result
    assert "(user error): data.jsonl:3: not JSON" in result.err
    assert supervised.attempts() == ["attempt-1"]


def test_the_first_failing_rank_is_the_cause_and_the_others_are_its_victims(supervised):
    result = supervised.run("hello; case $RANK in 3) fail internal 'the real reason' 70;; 2) hang;; *) fail peer_lost 'connection reset' 76;; esac",
                            "--restart.max_restarts=0", "--step_scheduler.local_batch_size=1", ranks=4)
    assert result.status == 1, result
    assert "rank 3 exited with status 70 (internal error): the real reason" in result.err
    assert "rank 2 was stopped because rank 3 failed" in result.err


def test_a_survivor_that_hangs_does_not_hold_the_restart_up(supervised):
    result = supervised.run("trap '' TERM INT HUP; hello; ready 0; case $RANK/$ATTEMPT in 0/1) hang;; 1/1) exit 70;; esac; finish completed 1", ranks=2)
    assert result.status == 0, result


# ---- signals ----


@pytest.mark.parametrize("number,status", [(signal.SIGTERM, 75), (signal.SIGUSR1, 75), (signal.SIGINT, 130), (signal.SIGHUP, 75)])
def test_a_signal_to_amctl_saves_and_leaves(supervised, number, status):
    running = supervised.start("hello; ready 0; step 1; await_leave 2", ranks=2)
    shows(running, "step 1")
    running.signal(number)
    result = running.wait(60)
    assert result.status == status, result
    assert "Saving checkpoint to checkpoints/epoch_0_step_2" in result.out
    assert "amctl: saved and left; the last checkpoint is checkpoints/epoch_0_step_2" in result.err
    running.expect_nothing_left()


def test_a_third_signal_takes_no_time(supervised):
    running = supervised.start("trap '' TERM INT USR1; " + TRAINS_FOR_EVER, ranks=2)
    shows(running, "step 1")
    running.descendants()
    for word in ("within 60 s", "within 5 s", "leaving now"):
        running.signal(signal.SIGINT)
        shows(running, word, "stderr")
    result = running.wait(30)
    assert result.status == 130, result
    assert "left without saving" in result.err
    running.expect_nothing_left()


def test_what_does_not_leave_within_its_grace_is_killed(supervised):
    running = supervised.start(TRAINS_FOR_EVER, "--restart.grace_s=0.2")
    shows(running, "step 1")
    running.signal(signal.SIGTERM)
    result = running.wait(30)
    assert result.status == 75 and "left without saving" in result.err, result
    running.expect_nothing_left()


def test_ranks_that_leave_by_themselves_leave_the_job_to_be_requeued(supervised):
    result = supervised.run("hello; ready 0; checkpoint 3; finish saved_and_left 3; exit 75", ranks=2)
    assert result.status == 75, result
    assert supervised.attempts() == ["attempt-1"]


def test_a_rank_that_dies_while_leaving_ends_the_waiting(supervised):
    running = supervised.start("hello; ready 0; step 1; case $RANK in 0) hang;; 1) await leave; kill -11 $$;; esac", ranks=2)
    shows(running, "step 1")
    running.signal(signal.SIGTERM)
    result = running.wait(30)
    assert result.status == 75 and "SIGSEGV" in result.err and "left without saving" in result.err, result


def test_nothing_outlives_amctl_killed_with_9(supervised):
    running = supervised.start("trap '' TERM INT HUP; " + TRAINS_FOR_EVER, ranks=2)
    shows(running, "step 1")
    assert len(running.descendants()) >= 2
    running.signal(signal.SIGKILL)
    running.popen.wait(30)
    running.expect_nothing_left()
    runtime = supervised.product.folder / "run" / "amctl"
    assert not list(runtime.iterdir()), "no socket is left either"


def test_a_rank_that_is_cut_off_from_the_death_signal_still_has_the_lifeline(supervised):
    running = supervised.start("hello; ready 0; step 1; (setsid sh -c 'read x <&5; exit' &) ; hang")
    shows(running, "step 1")
    running.descendants()
    running.signal(signal.SIGKILL)
    running.popen.wait(30)
    running.expect_nothing_left()


# ---- what forks away ----


@pytest.mark.parametrize("end", ["finish completed 1", "kill -9 $$"])
def test_a_grandchild_that_forked_twice_is_swept(supervised, end):
    script = ("hello; ready 0; mkfifo $PWD/started; (setsid sh -c 'echo $$ > stray.pid; echo > started; exec tail -f /dev/null' &); read _ < started; " + end)
    running = supervised.start(script, "--restart.max_restarts=0")
    result = running.wait(30)
    assert result.status == (0 if "completed" in end else 6), result
    (folder,) = {path.parent for path in supervised.product.folder.rglob("stray.pid")}
    pid = int((folder / "stray.pid").read_text())
    assert not psutil.pid_exists(pid) or not alive(psutil.Process(pid)), "gone before amctl says that it is done"


def test_a_child_of_the_shell_that_became_amctl_is_left_alone(supervised, tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    running = supervised.start("hello; ready 0; finish completed 1", prefix=["sh", "-c", f"cat {fifo} & echo $! > {tmp_path}/pid; exec \"$@\"", "sh"])
    result = running.wait(30)
    assert result.status == 0, result
    pid = int((tmp_path / "pid").read_text())
    assert alive(psutil.Process(pid))
    psutil.Process(pid).kill()


# ---- output ----


def test_a_log_has_the_bytes_that_the_rank_wrote(supervised):
    supervised.run("printf 'ok\\n\\200\\303\\n\\000\\n10%%\\r20%%\\r\\n'; head -c 1048576 /dev/zero | tr '\\0' x; echo; finish completed 1")
    assert supervised.log() == b"ok\n\x80\xc3\n\0\n10%\r20%\r\n" + b"x" * 1048576 + b"\n"


def test_the_last_lines_of_a_failed_rank_are_shown_whatever_their_bytes(supervised):
    result = supervised.run("printf 'ok\\n\\200\\n10%%\\r20%%\\r\\n\\033[31mred'; exit 1", "--restart.max_restarts=0")
    assert "the last lines of rank 0:\n  | ok\n  | \ufffd\n  | 20%\n  | \ufffd[31mred\n" in result.err, result
    assert "the whole log: " in result.err


def test_warnings_go_to_standard_error(supervised):
    result = supervised.run("hello; warning 'use_triton has no effect here'; ready 0; finish completed 1")
    assert "warning: rank 0: use_triton has no effect here" in result.err and result.out == "", result


def test_a_closed_standard_output_does_not_end_the_job_and_is_said(supervised):
    product = supervised.product
    environment = product.environment(AMCTL_RANK_PROGRAM=str(ROOT / "tests" / "fakes" / "rank.sh"),
                                      FAKE_RANK="hello; ready 0; step 1; await leave; for i in 2 3 4; do step $i; done; finish completed 4")
    process = subprocess.Popen([product.bin_dir / "amctl", "run", supervised.recipe, "--nproc-per-node=1"], env=environment, cwd=product.folder,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
    assert process.stdout.readline().startswith(b"step 1 ")
    process.stdout.close()
    process.send_signal(signal.SIGTERM)
    err = process.stderr.read().decode()
    assert process.wait(30) == 0, err
    assert err.count("standard output was closed; the training goes on, its lines are in ") == 1


def test_a_reader_that_does_not_read_does_not_deafen_amctl(supervised):
    product = supervised.product
    environment = product.environment(AMCTL_RANK_PROGRAM=str(ROOT / "tests" / "fakes" / "rank.sh"),
                                      FAKE_RANK="hello; ready 0; i=0; while [ $i -lt 2000 ]; do i=$((i+1)); step $i; done; warning full; await_leave 9")
    process = subprocess.Popen([product.bin_dir / "amctl", "run", supervised.recipe, "--nproc-per-node=1"], env=environment, cwd=product.folder,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
    # The first line is there, the pipe is full soon after, and nobody takes any more.
    assert process.stdout.read(1) == b"s"
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 130


# ---- places ----


def test_a_state_folder_that_cannot_be_made_is_refused_before_anything_starts(supervised):
    (supervised.product.folder / "file").write_text("in the way")
    result = supervised.run("exit 0", f"--state-dir={supervised.product.folder}/file/state")
    assert result.status == 2, result
    assert f"cannot create directory {supervised.product.folder}/file: Not a directory" in result.err
    assert "--state-dir" in result.err


def test_a_runtime_folder_that_cannot_be_used_is_replaced_by_a_temporary_one(supervised):
    for runtime in ("/proc/nonexistent", "/tmp/" + "long/" * 30):
        assert supervised.run("hello; finish completed 1", env={"XDG_RUNTIME_DIR": runtime}).status == 0


def test_a_runtime_folder_may_have_any_name(supervised):
    runtime = pathlib.Path("/tmp") / f"am ctl %41?#é {os.getpid()}"
    runtime.mkdir(mode=0o700)
    try:
        assert supervised.run("hello; finish completed 1", env={"XDG_RUNTIME_DIR": str(runtime)}).status == 0
        assert (runtime / "amctl").exists(), "it was used"
    finally:
        (runtime / "amctl").rmdir()
        runtime.rmdir()


def test_closed_standard_descriptors_are_not_taken_by_other_files(supervised):
    result = supervised.run("hello; ready 0; step 1; finish completed 1", prefix=["sh", "-c", "exec \"$@\" <&- >&-", "sh"])
    assert result.status == 0 and result.out == "", result


def test_no_folder_for_the_socket_at_all_is_refused(supervised):
    result = supervised.run("exit 0", env={"XDG_RUNTIME_DIR": "/proc/nonexistent", "TMPDIR": "/proc/nonexistent"})
    assert result.status == 2, result
    assert "no folder for the controller's socket" in result.err and "XDG_RUNTIME_DIR or TMPDIR" in result.err


def test_a_rank_program_that_is_not_there_is_refused(supervised):
    result = supervised.run("exit 0", env={"AMCTL_RANK_PROGRAM": "/nonexistent/am-rank"})
    assert result.status == 2, result
    assert "cannot execute AMCTL_RANK_PROGRAM /nonexistent/am-rank: No such file or directory" in result.err


# ---- the command line ----


@pytest.mark.parametrize("words,said", [
    (["rum"], "unknown command 'rum'; did you mean run?"),
    (["run"], "no recipe was given"),
    (["run", "r.yaml", "--nproc-per-nod=2"], "unknown option --nproc-per-nod; did you mean --nproc-per-node?"),
    (["run", "r.yaml", "--nproc-per-node", "many"], "--nproc-per-node: expected an integer of at least 1, got many"),
    (["run", "r.yaml", "--nodes", "2"], "--nodes"),
    (["help", "rum"], "did you mean run?"),
    (["version", "please"], "takes no arguments"),
])
def test_bad_usage_exits_with_2_and_says_what_was_meant(product, words, said):
    result = product.amctl(*words)
    assert result.status == 2 and said in result.err and result.out == "", result


def test_help_goes_to_standard_output(product):
    for words in (["help"], ["--help"], ["help", "run"], ["run", "--help"], ["run", "-h"]):
        result = product.amctl(*words)
        assert result.status == 0 and result.out.startswith("usage: amctl") and result.err == "", result
    assert "Examples:" in product.amctl("help", "run").out
    assert product.amctl("version").out == f"amctl {(ROOT / 'VERSION').read_text().strip()}\n"
    assert product.amctl("--version").out == product.amctl("version").out
