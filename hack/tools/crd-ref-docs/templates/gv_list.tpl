{{- /* Copyright The Grapnel Authors. SPDX-License-Identifier: Apache-2.0 */ -}}
{{- define "gvList" -}}
# API reference

Generated from the Go types by `make reference`; do not edit. The [pages of the kinds](README.md) explain what the
fields do together, and `kubectl explain` shows the same texts.
{{ range . }}{{ template "gvDetails" . }}{{ end }}
{{- end -}}
