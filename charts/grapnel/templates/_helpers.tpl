{{- /*
Copyright The Grapnel Authors.
SPDX-License-Identifier: Apache-2.0
*/ -}}

{{- /* grapnel.image is the image of the operator. */}}
{{- define "grapnel.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- /* grapnel.storeComponent is the component with the volume of the store. */}}
{{- define "grapnel.storeComponent" -}}
{{- if eq .Values.store.type "SharedVolume" }}store-shared-volume{{ else }}store-volume{{ end -}}
{{- end -}}
