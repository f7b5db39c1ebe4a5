# syntax=docker/dockerfile:1
# The image of the operator: a static program and what hooks usually call.
#
#   docker build -t addon-operator .                    # bash, jq, kubectl, curl
#   docker build -t addon-operator:py --target python . # and Python with PyYAML
#
# The program is compiled from this directory, or is that of a release in dist/ ("make release"):
#
#   docker build -t addon-operator --build-arg PROGRAM=release --build-arg VERSION=v0.1.0 --build-context release=dist .
#
# Your own image adds modules and hooks:
#
#   FROM addon-operator
#   COPY modules /modules
#   COPY global-hooks /global-hooks

# PROGRAM is source or release: where the program comes from.
ARG PROGRAM=source

# The program and kubectl come from Go modules with checksums, so that nothing is downloaded
# that go.sum does not name. The same source gives the same bytes. The flags are those of
# .ci/goflags, so that a test of these steps compiles nothing that make has compiled. Go compiles
# on the machine that builds, for the machine that TARGETARCH names: nothing is emulated.

# modules has what both programs are compiled from, without the source of this directory.
FROM --platform=$BUILDPLATFORM golang:1.26-alpine3.22@sha256:727cfc3c40be55cd1bc9a4a059406b28a059857e3be752aa9d09531e12c20c56 AS modules
WORKDIR /src
ENV CGO_ENABLED=0 GOFLAGS="-buildvcs=false -trimpath -gcflags=all=-dwarf=false -ldflags=-s" GOTOOLCHAIN=local
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download

# kubectl is of the version whose modules KUBECTL names: it is made for API servers of one minor version around it, and
# those of 1.35 are all in docs/compatibility.md. --build-arg KUBECTL=go.mod is the one of the operator's client library.
FROM modules AS kubectl
ARG KUBECTL=kube-1.35.mod
ARG TARGETARCH
COPY testkit/devcluster/*.mod testkit/devcluster/*.sum testkit/devcluster/ldflags testkit/devcluster/
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    mkdir -p /out/bin && \
    GOOS=linux GOARCH=${TARGETARCH} go build -C testkit/devcluster -modfile="${KUBECTL}" -ldflags "-buildid= $(sh testkit/devcluster/ldflags "${KUBECTL}")" -o /out/bin/kubectl k8s.io/kubernetes/cmd/kubectl

# program-source compiles the program. COMMIT and DATE are what "addon-operator version -o json" prints.
FROM modules AS program-source
ARG VERSION=dev
ARG COMMIT=
ARG DATE=
ARG TARGETARCH
COPY . .
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    mkdir -p /out/bin && \
    GOOS=linux GOARCH=${TARGETARCH} go build -ldflags "-s -w -buildid= -X main.version=${VERSION} -X main.commit=${COMMIT} -X main.date=${DATE}" -o /out/bin/addon-operator ./cmd/addon-operator

# release is empty, unless --build-context names the directory of a release.
FROM scratch AS release

# program-release unpacks the program of a release, when its sum is the one that the release names.
FROM modules AS program-release
ARG VERSION=dev
ARG TARGETARCH
RUN --mount=type=bind,from=release,target=/release \
    mkdir -p /out/bin && cd /release && \
    grep " addon-operator_${VERSION}_linux_${TARGETARCH}.tar.gz$" SHA256SUMS >/out/sum && \
    sha256sum -c /out/sum && rm /out/sum && \
    tar -xzf "addon-operator_${VERSION}_linux_${TARGETARCH}.tar.gz" -C /out/bin addon-operator

# program is one of the two.
FROM program-${PROGRAM} AS program
RUN mkdir -p /out/modules /out/global-hooks

# tini is process 1: it hands signals on and reaps what hooks leave behind.

# base has the program and what hooks usually call.
FROM alpine:3.22@sha256:14358309a308569c32bdc37e2e0e9694be33a9d99e68afb0f5ff33cc1f695dce AS base
RUN apk add --no-cache bash ca-certificates curl jq tini tzdata && \
    addgroup -g 65532 -S nonroot && adduser -u 65532 -S -D -H -G nonroot nonroot
COPY --from=kubectl /out/ /
COPY --from=program /out/ /
# What hooks in bash source: /shell_lib.sh, and /frameworks/shell, to which your image may add files.
COPY hooks/shell/shell_lib.sh /
COPY hooks/shell/frameworks /frameworks
# /modules and /global-hooks are the defaults of the operator; named here, they would win over
# ADDON_OPERATOR_WORKING_DIR.
ENV HOME=/tmp
WORKDIR /
USER 65532:65532
EXPOSE 9650
ARG VERSION=dev
ARG COMMIT=
ARG DATE=
# SOURCE is the URL of the repository.
ARG SOURCE=
LABEL org.opencontainers.image.title="addon-operator" \
      org.opencontainers.image.description="Keeps the add-ons of a Kubernetes cluster installed" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${COMMIT}" \
      org.opencontainers.image.created="${DATE}" \
      org.opencontainers.image.source="${SOURCE}" \
      org.opencontainers.image.base.name="docker.io/library/alpine:3.22"
ENTRYPOINT ["/sbin/tini", "--", "/bin/addon-operator"]

# The package manager is not left in the image's way: no compiler, no pip.

# python is base for hooks in Python.
FROM base AS python
USER 0
RUN apk add --no-cache python3 py3-yaml
USER 65532:65532

# operator is the last stage, hence what 'docker build' makes without --target.
FROM base AS operator
