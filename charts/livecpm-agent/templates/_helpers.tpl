{{- /*
SPDX-FileCopyrightText: The livecpm authors
SPDX-License-Identifier: Apache-2.0
*/ -}}

{{- /* What selects the pods. The labels app and role are what Gardener's own components in the seed carry. */ -}}
{{- define "livecpm-agent.matchLabels" -}}
app: livecpm
role: agent
release: {{ .Release.Name }}
{{- end -}}

{{- define "livecpm-agent.labels" -}}
{{ include "livecpm-agent.matchLabels" . }}
app.kubernetes.io/name: livecpm
app.kubernetes.io/component: agent
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "livecpm-agent.image" -}}
{{- if .ref -}}
{{ .ref }}
{{- else -}}
{{ required "an image needs a repository" .repository }}:{{ required "an image needs a tag" .tag }}
{{- end -}}
{{- end -}}

{{- define "livecpm-agent.config" -}}
{{- $chart := dict
  "apiVersion" "config.livecpm.gardener.cloud/v1alpha1"
  "kind" "AgentConfiguration"
  "gardenClientConnection" (dict "kubeconfig" "/etc/livecpm-agent/garden/kubeconfig")
  "gardenlet" (dict "configurationFile" "/etc/livecpm-agent/gardenlet/config.yaml")
  "relay" (dict "image" (include "livecpm-agent.image" .Values.relay.image))
  "leaderElection" (dict "resourceNamespace" .Release.Namespace)
-}}
{{- mergeOverwrite (deepCopy .Values.config) $chart | toYaml -}}
{{- end -}}
