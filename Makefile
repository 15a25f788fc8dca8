# SPDX-License-Identifier: Apache-2.0
# The front door; Meson does the work. `make run` and `make check` set a fresh machine up first.
.PHONY: build run check check-quick check-long bench fuzz install clean

build:
	@tools/setup build
	@test -f build/build.ninja || meson setup build >/dev/null
	@ninja -C build --quiet

run: build
	@tools/run

check:
	@tools/check

check-quick:
	@tools/check quick

check-long:
	@tools/check long

bench: build
	@tools/setup check
	@tests/with-postgres --durable build/bench/bench-lease
	@echo; tests/with-sshd build/bench/bench-exec
	@echo; build/bench/bench-rpc build/workers/fake bench
	@echo; build/bench/bench-http build/berthd
	@echo; build/bench/bench-sync build/workers/fake
	@echo; bench/far build/berth build/berthd

fuzz:
	@tools/fuzz

install: build
	@meson install -C build --no-rebuild

clean:
	rm -rf build build-asan build-tsan build-fuzz
