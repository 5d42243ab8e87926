#!/usr/bin/env bash
# Builds the images from this machine's programs and runs the pair in containers,
# as compose.yaml does but without a network of Docker's: read-only, without
# capabilities, as nobody in particular. Kinesis goes away and comes back.
# Starts a daemon of its own, which leaves the firewall alone, if none answers.
set -euo pipefail
cd "$(dirname "$0")/.."

export DOCKER_BUILDKIT=1
# DOCKER names another client, where the first in PATH comes without BuildKit.
docker() { command "${DOCKER:-docker}" "$@"; }
work=$(mktemp -d)
names=(test-standins test-collector test-watchdog)
daemon=
cleanup() {
  local code=$?
  if [ $code -ne 0 ]; then
    for name in "${names[@]}"; do echo "--- $name"; docker logs --tail 20 "$name" 2>&1 || true; done
  fi
  docker rm -f "${names[@]}" >/dev/null 2>&1 || true
  docker volume rm test-data test-memory >/dev/null 2>&1 || true
  if [ -n "$daemon" ]; then kill "$daemon"; wait "$daemon" || true; fi
  rm -rf "$work"
}
trap cleanup EXIT

if ! docker info >/dev/null 2>&1; then
  export DOCKER_HOST=unix://$work/sock
  dockerd --bridge=none --iptables=false --ip6tables=false --ip-forward=false --ip-masq=false \
    --data-root "$work/data" --exec-root "$work/exec" -H "$DOCKER_HOST" -p "$work/pid" >"$work/log" 2>&1 &
  daemon=$!
  for _ in $(seq 100); do docker info >/dev/null 2>&1 && break; sleep 0.1; done
  docker info >/dev/null || { cat "$work/log"; exit 1; }
fi

# wait_for SECONDS WHAT COMMAND... waits until a command succeeds.
wait_for() {
  local until=$((SECONDS + $1)) what=$2
  shift 2
  until "$@" >/dev/null 2>&1; do
    if [ $SECONDS -ge $until ]; then echo "FAILED: $what"; exit 1; fi
    sleep 0.5
  done
  echo "ok: $what"
}

make --no-print-directory image-files >/dev/null
for target in standins collector watchdog; do
  docker build -q --build-arg PROGRAMS=prebuilt -f docker/Dockerfile --target "$target" -t "spillway-$target:test" . >/dev/null
  echo "ok: image spillway-$target, $(docker image inspect -f '{{.Size}}' "spillway-$target:test") bytes"
done

# All three share the network of the first: names become loopback.
mkdir "$work/etc"
for file in docker/compose/*.yaml; do
  sed 's/standins:/127.0.0.1:/; s/collector:8080/127.0.0.1:8080/' "$file" >"$work/etc/$(basename "$file")"
done
chmod -R a+rX "$work"
locked=(--read-only --cap-drop ALL --security-opt no-new-privileges --pids-limit 512)
docker run -d --name test-standins "${locked[@]}" --network none spillway-standins:test >/dev/null
docker run -d --name test-collector "${locked[@]}" --network container:test-standins -v test-data:/var/lib/spillway -v "$work/etc:/etc/spillway:ro" \
  -e AWS_ACCESS_KEY_ID=rig -e AWS_SECRET_ACCESS_KEY=rig -e AWS_REGION=us-east-1 -e AWS_EC2_METADATA_DISABLED=true spillway-collector:test >/dev/null
docker run -d --name test-watchdog "${locked[@]}" --network container:test-standins -v test-data:/var/lib/spillway -v test-memory:/var/lib/spillway-watchdog \
  -v "$work/etc:/etc/spillway:ro" spillway-watchdog:test >/dev/null

pid=$(docker inspect -f '{{.State.Pid}}' test-standins)
inside() { nsenter --target "$pid" --net -- "$@"; }
mode_is() { inside curl -sf http://127.0.0.1:9092/status | grep -q "\"phase\": *\"$1\""; }
event() { inside curl -sf "http://127.0.0.1:8080/i?e=pv&p=web&aid=test" -o /dev/null; }

wait_for 20 "an event is answered 200" event
wait_for 20 "the watchdog sees the collector" mode_is primary
wait_for 20 "the event is in Kinesis" sh -c "nsenter --target $pid --net -- curl -sf http://127.0.0.1:4570/ | grep -q 'stream good: [1-9]'"
[ "$(docker inspect -f '{{.Config.User}}' spillway-collector:test)" = 65532:65532 ]
[ "$(stat -c %u "/proc/$(docker inspect -f '{{.State.Pid}}' test-collector)")" = 65532 ]

inside curl -sf -X POST 'http://127.0.0.1:4570/kinesis/fault?kind=down' -o /dev/null
diverted() { event && mode_is fallback; }
wait_for 90 "the watchdog diverts to S3" diverted
wait_for 30 "events are in S3" sh -c "nsenter --target $pid --net -- curl -sf http://127.0.0.1:4570/ | grep -q 'spillway-fallback: [1-9]'"
inside curl -sf -X DELETE 'http://127.0.0.1:4570/kinesis/fault' -o /dev/null
returned() { event && { mode_is probation || mode_is primary; }; }
wait_for 120 "the watchdog returns to Kinesis" returned

# A stop is graceful, and what was answered is there after the next start.
docker stop -t 40 test-collector >/dev/null
[ "$(docker inspect -f '{{.State.ExitCode}}' test-collector)" = 0 ]
docker start test-collector >/dev/null
wait_for 20 "the collector starts again on its volume" event
