# SPDX-License-Identifier: Apache-2.0
#
# What is released: binaries, archives and packages for each of ARCHITECTURES. The same commit gives the same bits.
#
# The binaries are built against glibc 2.27 by Debian's and Ubuntu's cross compilers (gcc-x86-64-linux-gnu, gcc-aarch64-linux-gnu,
# of which the native one is gcc itself). Another compiler: make release CC_arm64='...'.
.PHONY: release release-% test-arm64

ARCHITECTURES ?= amd64 arm64
export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 0)

SYSROOT := $(CURDIR)/bin/sysroot
# -isystem and -B: the compiler would otherwise prefer the headers and libraries of this machine beside it to those of its sysroot.
CC_amd64 = x86_64-linux-gnu-gcc --sysroot=$(SYSROOT)-amd64 -isystem $(SYSROOT)-amd64/usr/include -B$(SYSROOT)-amd64/usr/lib/x86_64-linux-gnu
CC_arm64 = aarch64-linux-gnu-gcc --sysroot=$(SYSROOT)-arm64 -isystem $(SYSROOT)-arm64/usr/include -B$(SYSROOT)-arm64/lib

release: $(ARCHITECTURES:%=release-%) ## bin/linux-amd64 and linux-arm64/gpufabric_exporter for glibc 2.28 and later (headers of Ubuntu are fetched)

release-%: bin/sysroot-%
	CC='$(CC_$*)' GOARCH=$* CGO_ENABLED=1 $(GO) build -trimpath -buildvcs=false -buildmode=pie -ldflags '-s -w -buildid= $(LDFLAGS)' -o bin/linux-$*/gpufabric_exporter .

bin/sysroot-%: packaging/sysroot.sh
	packaging/sysroot.sh $* $@
	touch $@

