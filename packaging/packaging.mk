# SPDX-License-Identifier: Apache-2.0
#
# What is released: binaries, archives, packages, licences and bills of materials for each of ARCHITECTURES, provenance and checksums,
# all in bin/release (docs/CONTRIBUTING.md). The same commit gives the same bits.
#
# The binaries are built against glibc 2.27 by Debian's and Ubuntu's cross compilers (gcc-x86-64-linux-gnu, gcc-aarch64-linux-gnu,
# of which the native one is gcc itself). Another compiler: make release CC_arm64='...'.
.PHONY: release binaries packages archive image pin packages-test arm64-test compilers

# A release is for both; what is built for oneself, for this machine.
HOST := $(shell $(GO) env GOHOSTARCH)
ARCHITECTURES ?= $(if $(filter release image packages-test verify,$(MAKECMDGOALS)),amd64 arm64,$(HOST))
export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 0)

SYSROOT := $(CURDIR)/bin/sysroot
# -isystem and -B: the compiler would otherwise prefer the headers and libraries of this machine beside it to those of its sysroot.
CC_amd64 = x86_64-linux-gnu-gcc --sysroot=$(SYSROOT)-amd64 -isystem $(SYSROOT)-amd64/usr/include -B$(SYSROOT)-amd64/usr/lib/x86_64-linux-gnu
CC_arm64 = aarch64-linux-gnu-gcc --sysroot=$(SYSROOT)-arm64 -isystem $(SYSROOT)-arm64/usr/include -B$(SYSROOT)-arm64/lib

binaries: compilers $(ARCHITECTURES:%=binary-%) ## bin/linux-*/gpufabric_exporter for this machine (ARCHITECTURES='amd64 arm64': for both) and glibc 2.28 and later (headers of Ubuntu are fetched)

# They are asked for before anything is built.
compilers: $(ARCHITECTURES:%=compiler-%)

compiler-%:
	@command -v $(firstword $(CC_$*)) >/dev/null || { echo '$(firstword $(CC_$*)) is missing, the C compiler for $*: apt install gcc-$(subst _,-,$(patsubst %-gcc,%,$(firstword $(CC_$*)))), or leave $* out of ARCHITECTURES' >&2; exit 1; }

binary-%: compiler-% bin/sysroot-%
	CC='$(CC_$*)' GOARCH=$* CGO_ENABLED=1 $(GO) build -trimpath -buildvcs=false -buildmode=pie -ldflags '-s -w -buildid= $(LDFLAGS)' -o bin/linux-$*/gpufabric_exporter .

bin/sysroot-%: packaging/sysroot.sh
	packaging/sysroot.sh $* $@
	touch $@

.SECONDARY: $(ARCHITECTURES:%=bin/sysroot-%)

# What is in archives and packages, but for the binary of an architecture.
NATIVE := bin/linux-$(HOST)/gpufabric_exporter
SHIPPED := LICENSE CHANGELOG.md packaging/config.yml packaging/reference.yml packaging/default packaging/systemd packaging/slurm packaging/deb packaging/rpm packaging/deb/copyright

# RELEASER describes binaries: licences, bill of materials, provenance.
RELEASER := bin/releaser

$(RELEASER): $(wildcard tools/release/*)
	$(GO) build -C tools/release -o ../../$@ .

# Licences of what is in the binary of an architecture, beside it.
licences-%: binary-% $(RELEASER)
	$(RELEASER) licences bin/linux-$*/gpufabric_exporter > bin/linux-$*/THIRD_PARTY

stage-%: licences-% binary-$(HOST)
	rm -rf bin/stage-$*
	mkdir -p bin/stage-$*/completion
	cp -r $(SHIPPED) bin/linux-$*/* bin/stage-$*
	rm bin/stage-$*/systemd/*.go
	$(NATIVE) --help-man | tee bin/stage-$*/gpufabric_exporter.1 | gzip -9n > bin/stage-$*/gpufabric_exporter.1.gz
	gzip -9nc CHANGELOG.md > bin/stage-$*/changelog.gz
	$(NATIVE) --completion-script-bash > bin/stage-$*/completion/gpufabric_exporter.bash
	$(NATIVE) --completion-script-zsh > bin/stage-$*/completion/_gpufabric_exporter
	chmod -R u=rwX,go=rX bin/stage-$*
	find bin/stage-$* -exec touch -h -d @$(SOURCE_DATE_EPOCH) {} +

package-%: stage-%
	mkdir -p bin/release
	$(GO) build -C tools/nfpm -o ../../bin/nfpm github.com/goreleaser/nfpm/v2/cmd/nfpm
	cd bin/stage-$* && for kind in deb rpm; do VERSION=$(VERSION) ARCHITECTURE=$* ../nfpm package --config ../../packaging/nfpm.yml --packager $$kind --target ../release; done

packages: compilers $(ARCHITECTURES:%=package-%) ## bin/release/*.deb and *.rpm for each of ARCHITECTURES

archive-%: stage-%
	mkdir -p bin/release
	cd bin/stage-$* && tar --sort=name --owner=0 --group=0 --numeric-owner --mtime=@$(SOURCE_DATE_EPOCH) \
	  --transform='s,^,gpufabric_exporter-$(VERSION).linux-$*/,' -cf - \
	  LICENSE THIRD_PARTY CHANGELOG.md gpufabric_exporter gpufabric_exporter.1 config.yml reference.yml default completion systemd slurm | gzip -9n > ../release/gpufabric_exporter-$(VERSION).linux-$*.tar.gz

archive: compilers $(ARCHITECTURES:%=archive-%) ## bin/release/*.tar.gz for each of ARCHITECTURES, for hosts without packages

# The name of what is released for an architecture, to which a suffix is added.
RELEASED = gpufabric_exporter-$(VERSION).linux-$*

bill-%: stage-%
	mkdir -p bin/release
	cp bin/linux-$*/gpufabric_exporter bin/release/$(RELEASED)
	cp bin/stage-$*/THIRD_PARTY bin/release/$(RELEASED).THIRD_PARTY
	$(RELEASER) sbom $(VERSION) bin/linux-$*/gpufabric_exporter > bin/release/$(RELEASED).spdx.json

COMMIT ?= $(shell git rev-parse HEAD 2>/dev/null || echo unknown)

release: ## bin/release with all that is released of the tagged commit; SNAPSHOT=1: of any tree (docs/CONTRIBUTING.md)
	$(if $(SNAPSHOT),,packaging/tagged.sh $(VERSION))
	rm -rf bin/release
	$(MAKE) packages archive $(ARCHITECTURES:%=bill-%) ARCHITECTURES='$(ARCHITECTURES)'
	$(RELEASER) provenance $(VERSION) $(COMMIT) bin/linux-$(firstword $(ARCHITECTURES))/gpufabric_exporter bin/release/* > bin/provenance.json
	mv bin/provenance.json bin/release/gpufabric_exporter-$(VERSION).provenance.json
	cd bin/release && sha256sum -- * > ../SHA256SUMS && mv ../SHA256SUMS .
	cat bin/release/SHA256SUMS

pin: ## write the digests of the base images of a release into packaging/images, to be committed (skopeo and the registries)
	packaging/pin.sh

image: ## the image of a release for each architecture, on the base images that packaging/images pins by digest (podman; IMAGE=gpufabric_exporter:VERSION)
	packaging/image.sh "$(or $(IMAGE),gpufabric_exporter:$(VERSION))" "$(REVISION)" $(ARCHITECTURES)

packages-test: packages archive ## install, upgrade and remove the packages under systemd, as docs/INSTALL.md says, and build them again (15 min; debootstrap, systemd-nspawn, needs root)
	$(GO) test -count=1 -v -timeout 30m -tags packages ./test/packages

arm64-test: bin/sysroot-arm64 ## unit tests as programs for arm64, with what emulation leaves out and why (1 h; qemu-aarch64-static, gcc-aarch64-linux-gnu, needs root)
	CC='$(CC_arm64)' $(GO) test -count=1 -v -timeout 3h -tags qemu ./test/arm64
