{{- /*
SPDX-FileCopyrightText: The livecpm authors
SPDX-License-Identifier: Apache-2.0
*/ -}}

{{- define "livecpm-garden.labels" -}}
app.kubernetes.io/name: livecpm
app.kubernetes.io/component: garden
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}
