# SPDX-License-Identifier: Apache-2.0
FROM golang:1.26-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN make build

# glibc, because the library of the GPU driver is loaded at run time by a worker process.
FROM gcr.io/distroless/base-debian12:nonroot
COPY --from=build /src/bin/gpufabric_exporter /bin/gpufabric_exporter
USER 65534:65534
EXPOSE 10791
ENTRYPOINT ["/bin/gpufabric_exporter"]
