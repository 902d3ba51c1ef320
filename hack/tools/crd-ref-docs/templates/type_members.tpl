{{- /* Copyright The Grapnel Authors. SPDX-License-Identifier: Apache-2.0 */ -}}
{{- define "type_members" -}}
{{- if eq .Name "metadata" }}the standard metadata of an object{{ else }}{{ markdownRenderFieldDoc .Doc | replace "<br />" " " | trim }}{{ end -}}
{{- end -}}
