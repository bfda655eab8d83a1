# SPDX-License-Identifier: Apache-2.0
#
# The image of the exporter: the program on glibc, without a shell, for user 65534. Releases pin both images by digest (make image).
#
# The program is built as those of a release are (packaging/packaging.mk): by a cross compiler, not by emulation, and for glibc 2.28
# and later, so that RUNTIME_IMAGE may be older than BUILD_IMAGE.
#
# RUNTIME_IMAGE must have glibc, because a worker process loads the library of the GPU driver, which the container runtime mounts.
# For probes, which load NCCL and libibverbs, it is the image of the site's jobs (docs/KUBERNETES.md).

ARG BUILD_IMAGE=docker.io/library/golang:1.26-bookworm
ARG RUNTIME_IMAGE=gcr.io/distroless/base-debian12:nonroot

FROM --platform=$BUILDPLATFORM ${BUILD_IMAGE} AS build
ARG TARGETARCH
RUN case $(go env GOARCH)-$TARGETARCH in \
      amd64-arm64) compiler=gcc-aarch64-linux-gnu ;; \
      arm64-amd64) compiler=gcc-x86-64-linux-gnu ;; \
      *) exit 0 ;; \
    esac; \
    apt-get update && apt-get install --yes --no-install-recommends $compiler
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
# .git is not part of the context (.dockerignore).
ARG REVISION=unknown
RUN make licences-$TARGETARCH REVISION="$REVISION"

FROM ${RUNTIME_IMAGE}
ARG TARGETARCH
ARG REVISION=unknown
LABEL org.opencontainers.image.title="gpufabric_exporter" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.source="https://github.com/gpufabric/gpufabric_exporter" \
      org.opencontainers.image.revision="$REVISION"
COPY --from=build /src/bin/linux-$TARGETARCH/gpufabric_exporter /bin/gpufabric_exporter
COPY --from=build /src/LICENSE /src/bin/linux-$TARGETARCH/THIRD_PARTY /usr/share/doc/gpufabric_exporter/
USER 65534:65534
EXPOSE 10791
HEALTHCHECK --interval=30s --timeout=5s CMD ["/bin/gpufabric_exporter", "healthcheck"]
ENTRYPOINT ["/bin/gpufabric_exporter"]
