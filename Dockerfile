# Copyright The Grapnel Authors.
# SPDX-License-Identifier: Apache-2.0

# The builder runs on the machine's own platform and compiles for the target's.
FROM --platform=$BUILDPLATFORM golang:1.26 AS builder
ARG TARGETOS
ARG TARGETARCH
ARG VERSION=unknown
WORKDIR /src

# Dependencies change less often than the code: they get a layer of their own.
COPY go.mod go.sum ./
COPY plugins/csi/go.mod plugins/csi/go.sum plugins/csi/
RUN go mod download && cd plugins/csi && go mod download
COPY *.go ./
COPY api/ api/
COPY controllers/ controllers/
COPY internal/ internal/
COPY sdk/ sdk/
COPY plugins/ plugins/
RUN CGO_ENABLED=0 GOOS=${TARGETOS:-linux} GOARCH=${TARGETARCH} \
    go build -trimpath -ldflags "-s -w -X main.version=${VERSION}" -o /image/manager . && \
    cd plugins/csi && CGO_ENABLED=0 GOOS=${TARGETOS:-linux} GOARCH=${TARGETARCH} \
    go build -trimpath -ldflags "-s -w" -o /image/plugins/csi .

# Static, without a shell, as user 65532. The plugin directory has the plugin csi, which
# does nothing until config/components/csi is used; to add a plugin, extend this image:
#
#   FROM ghcr.io/grapnel-dev/grapnel:v0.1.0
#   COPY --chmod=0755 myplugin /plugins/
FROM gcr.io/distroless/static:nonroot
COPY --from=builder /image/ /
USER 65532:65532
ENTRYPOINT ["/manager"]
