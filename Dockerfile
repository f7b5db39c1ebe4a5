# syntax=docker/dockerfile:1
# The image of the operator: a static program and what hooks usually call.
#
#   docker build -t addon-operator .                    # bash, jq, kubectl, curl
#   docker build -t addon-operator:py --target python . # and Python with PyYAML
#
# Your own image adds modules and hooks:
#
#   FROM addon-operator
#   COPY modules /modules
#   COPY global-hooks /global-hooks

# GO_VERSION is the toolchain of the build stage; go.mod says the least.
ARG GO_VERSION=1.26
# ALPINE_VERSION is the distribution of all stages.
ARG ALPINE_VERSION=3.22

# The program and kubectl come from Go modules with checksums, so that nothing is downloaded
# that go.sum does not name. The same source gives the same bytes. The flags are those of
# .ci/goflags, so that a test of these steps compiles nothing that make has compiled.

# build makes the program and kubectl.
FROM golang:${GO_VERSION}-alpine${ALPINE_VERSION} AS build
ARG VERSION=dev
WORKDIR /src
ENV CGO_ENABLED=0 GOFLAGS="-buildvcs=false -trimpath -gcflags=all=-dwarf=false -ldflags=-s" GOTOOLCHAIN=local
COPY go.mod go.sum ./
COPY testkit/devcluster/go.mod testkit/devcluster/go.sum testkit/devcluster/
RUN --mount=type=cache,target=/go/pkg/mod go mod download && go -C testkit/devcluster mod download
COPY . .
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    mkdir -p /out/bin /out/modules /out/global-hooks && \
    go build -ldflags "-s -w -buildid= -X main.version=${VERSION}" -o /out/bin/addon-operator ./cmd/addon-operator && \
    go build -C testkit/devcluster -ldflags "-buildid= $(cat testkit/devcluster/ldflags)" -o /out/bin/kubectl k8s.io/kubernetes/cmd/kubectl

# tini is process 1: it hands signals on and reaps what hooks leave behind.

# base has the program and what hooks usually call.
FROM alpine:${ALPINE_VERSION} AS base
RUN apk add --no-cache bash ca-certificates curl jq tini tzdata && \
    addgroup -g 65532 -S nonroot && adduser -u 65532 -S -D -H -G nonroot nonroot
COPY --from=build /out/ /
# /modules and /global-hooks are the defaults of the operator; named here, they would win over
# ADDON_OPERATOR_WORKING_DIR.
ENV HOME=/tmp
# For the start only: see cmd/operator/coldstart.go.
ENV GOGC=400
WORKDIR /
USER 65532:65532
EXPOSE 9650
ENTRYPOINT ["/sbin/tini", "--", "/bin/addon-operator"]

# The package manager is not left in the image's way: no compiler, no pip.

# python is base for hooks in Python.
FROM base AS python
USER 0
RUN apk add --no-cache python3 py3-yaml
USER 65532:65532

# operator is the last stage, hence what 'docker build' makes without --target.
FROM base AS operator
