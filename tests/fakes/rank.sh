#!/bin/sh
# Stands in for am-rank: the contract of worker/rank_io/README.md in shell. What it does is the shell code of FAKE_RANK, with the
# words below, $RANK and $ATTEMPT:
#   FAKE_RANK='hello; ready 0; step 1; case $RANK/$ATTEMPT in 1/1) kill -9 $$;; esac; checkpoint 1; finish completed 1'
spec=$1
folder=${spec%/*}
ATTEMPT=${folder##*-}
seq=0

event() { # TYPE FIELDS
  seq=$((seq + 1))
  printf '{"v":1,"type":"%s","seq":%d,"attempt":%d,"rank":%d,"t_unix_ns":0,"t_mono_ns":0%s}\n' \
    "$1" "$seq" "$ATTEMPT" "$RANK" "$2" >&"$AMCTL_EVENT_FD"
}
hello() { event hello ",\"pid\":$$,\"host\":\"fake\",\"device\":\"cpu\""; }
ready() { event ready ",\"step\":$1,\"epoch\":0,\"total_steps\":100"; }
step() { event step ",\"step\":$1,\"epoch\":0,\"loss\":1.5,\"grad_norm\":2,\"lr\":1e-05,\"mem_gib\":0.5,\"tps\":100,\"step_s\":0.1"; }
checkpoint() {
  event checkpoint_begun ",\"step\":$1,\"epoch\":0,\"path\":\"checkpoints/epoch_0_step_$1\""
  event checkpoint_done ",\"step\":$1,\"epoch\":0,\"path\":\"checkpoints/epoch_0_step_$1\",\"bytes\":1,\"seconds\":0.1"
}
warning() { event warning ",\"message\":\"$1\""; }
# KIND MESSAGE STATUS
fail() {
  event failed ",\"kind\":\"$1\",\"message\":\"$2\""
  exit "$3"
}
finish() { event "done" ",\"reason\":\"$1\",\"step\":$2"; }

# Blocks until a control message of this type comes, which is left in $message; exits when the supervisor is gone.
await() {
  while read -r message; do
    case $message in *"\"type\":\"$1\""*) return 0 ;; esac
  done <&"$AMCTL_CONTROL_FD"
  exit 99
}
# Waits for the word to leave, saves at STEP, leaves.
await_leave() {
  await leave
  checkpoint "$1"
  finish saved_and_left "$1"
  exit 75
}
# Blocks until the supervisor is gone.
hang() { read -r _ <&"$AMCTL_LIFELINE_FD"; }

eval "$FAKE_RANK"
