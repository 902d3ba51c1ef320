{{- /* Copyright The Grapnel Authors. SPDX-License-Identifier: Apache-2.0 */ -}}
{{- define "gvDetails" }}
Kinds of `{{ .GroupVersionString }}`:
{{ range .SortedKinds }}
- {{ $.TypeForKind . | markdownRenderTypeLink }}
{{- end }}
{{ range .SortedTypes }}{{ template "type" . }}{{ end -}}
{{- end -}}
