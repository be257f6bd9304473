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

{{- /* What selects the pods of the controller manager. */ -}}
{{- define "livecpm-garden.controllerManager.matchLabels" -}}
app: livecpm
role: controller-manager
release: {{ .Release.Name }}
{{- end -}}

{{- define "livecpm-garden.controllerManager.labels" -}}
{{ include "livecpm-garden.controllerManager.matchLabels" . }}
app.kubernetes.io/name: livecpm
app.kubernetes.io/component: controller-manager
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "livecpm-garden.controllerManager.image" -}}
{{- if .ref -}}
{{ .ref }}
{{- else -}}
{{ required "an image needs a repository" .repository }}:{{ required "an image needs a tag" .tag }}
{{- end -}}
{{- end -}}

{{- define "livecpm-garden.controllerManager.config" -}}
{{- $chart := dict
  "apiVersion" "config.livecpm.gardener.cloud/v1alpha1"
  "kind" "ControllerManagerConfiguration"
-}}
{{- if .Values.controllerManager.gardenKubeconfig.secretName -}}
{{- $_ := set $chart "gardenClientConnection" (dict "kubeconfig" "/etc/livecpm-controller-manager/garden/kubeconfig") -}}
{{- end -}}
{{- mergeOverwrite (deepCopy .Values.controllerManager.config) $chart | toYaml -}}
{{- end -}}

{{- /* Who gets the permissions in the virtual garden. */ -}}
{{- define "livecpm-garden.controllerManager.subjects" -}}
{{- if .Values.controllerManager.subjects -}}
{{ toYaml .Values.controllerManager.subjects }}
{{- else -}}
- kind: ServiceAccount
  name: {{ .Values.controllerManager.serviceAccount.name }}
  namespace: {{ .Release.Namespace }}
{{- end -}}
{{- end -}}
