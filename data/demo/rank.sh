#!/bin/sh
# One rank of a demo job: checks the environment it was given, works, writes a checkpoint, logs, exits.
# usage: rank.sh SECONDS GPUS
set -u
seconds=$1
gpus=$2

refuse() {
  echo "rank ${RANK:-?}: $1" >&2
  exit 3
}
for name in RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE NODE_RANK NNODES MASTER_ADDR MASTER_PORT CUDA_VISIBLE_DEVICES \
  ORBWEAVER_JOB_ID ORBWEAVER_LEASE_ID ORBWEAVER_TOKEN ORBWEAVER_HOST ORBWEAVER_CHECKPOINT_DIR; do
  eval "value=\${$name:-}"
  [ -n "$value" ] || refuse "$name is not set"
done
[ "$WORLD_SIZE" -eq "$gpus" ] || refuse "WORLD_SIZE is $WORLD_SIZE, the job asked for $gpus GPUs"
[ "$RANK" -ge 0 ] && [ "$RANK" -lt "$WORLD_SIZE" ] || refuse "RANK $RANK is not below WORLD_SIZE $WORLD_SIZE"
visible=$(echo "$CUDA_VISIBLE_DEVICES" | tr ',' '\n' | wc -l)
[ "$visible" -eq "$LOCAL_WORLD_SIZE" ] || refuse "$visible GPUs are visible, LOCAL_WORLD_SIZE is $LOCAL_WORLD_SIZE"

# Complete by rename: a half-written checkpoint never has a name that a resume would take.
checkpoint() {
  if [ "$RANK" -eq 0 ]; then
    mkdir -p "$ORBWEAVER_CHECKPOINT_DIR/$ORBWEAVER_TOKEN"
    echo "job $ORBWEAVER_JOB_ID lease $ORBWEAVER_LEASE_ID $1" > "$ORBWEAVER_CHECKPOINT_DIR/$ORBWEAVER_TOKEN/$1.tmp"
    mv "$ORBWEAVER_CHECKPOINT_DIR/$ORBWEAVER_TOKEN/$1.tmp" "$ORBWEAVER_CHECKPOINT_DIR/$ORBWEAVER_TOKEN/$1"
  fi
}
trap 'checkpoint ordered' USR1

echo "rank $RANK of $WORLD_SIZE on $ORBWEAVER_HOST, GPUs $CUDA_VISIBLE_DEVICES, master $MASTER_ADDR:$MASTER_PORT"
# A made-up figure of the gang's collectives, less the more hosts it spans; a real job writes what it measured.
if [ "$RANK" -eq 0 ] && [ "$WORLD_SIZE" -gt 1 ]; then
  echo "$((50 * LOCAL_WORLD_SIZE / NNODES))" > "$ORBWEAVER_BANDWIDTH_FILE"
fi
sleep "$seconds" &
wait $!
checkpoint final
echo "rank $RANK worked ${seconds} s"
