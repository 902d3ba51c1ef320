# Copyright The Grapnel Authors.
# SPDX-License-Identifier: Apache-2.0

# The image of a release, for those who build with a container engine. `make image` and `make release`
# build it without one, and all three have the same source: hack/release.
#
# The builder runs on the machine's own platform and compiles for the target's.
FROM --platform=$BUILDPLATFORM golang:1.26 AS builder
ARG TARGETARCH
ARG VERSION=dev
WORKDIR /src
COPY . .
RUN go run -C hack/release . root -version "${VERSION}" -platform "linux/${TARGETARCH}" -out /image

# Static programs, without a shell, as user 65532. The plugin directory has the plugin csi, which
# does nothing until config/components/csi is used; to add a plugin, extend this image:
#
#   FROM ghcr.io/grapnel-dev/grapnel:v0.1.0
#   COPY --chmod=0755 myplugin /plugins/
FROM scratch
COPY --from=builder /image/ /
USER 65532:65532
ENTRYPOINT ["/manager"]
