{{- /* Copyright The Grapnel Authors. SPDX-License-Identifier: Apache-2.0 */ -}}
{{- define "type" -}}
{{- if markdownShouldRenderType . }}
## {{ .Name }}

{{ .Doc }}
{{- if .IsAlias }}

Type: {{ markdownRenderType .UnderlyingType }}.
{{- end }}
{{- with .SortedReferences }}

Used by: {{ range $i, $type := . }}{{ if $i }}, {{ end }}{{ markdownRenderTypeLink $type }}{{ end }}.
{{- end }}
{{- if .Members }}

| field | type | description | default |
| --- | --- | --- | --- |
{{- range .Members }}
| `{{ .Name }}` | {{ markdownRenderType .Type }} | {{ template "type_members" . }} | {{ markdownRenderDefault .Default }} |
{{- end }}
{{- end }}
{{- if .EnumValues }}

| value | meaning |
| --- | --- |
{{- range .EnumValues }}
| `{{ .Name }}` | {{ markdownRenderFieldDoc .Doc | replace "<br />" " " | trim }} |
{{- end }}
{{- end }}
{{ end -}}
{{- end -}}
