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

{{- /*
Not empty if a gardenlet installs the chart because of a ControllerInstallation: then it mixes in what it knows of garden and
seed.
*/ -}}
{{- define "livecpm-agent.byGardenlet" -}}
{{- with .Values.gardener }}{{ with .seed }}true{{ end }}{{ end -}}
{{- end -}}

{{- /* Not empty if the agent takes over from the gardenlet's Deployment what it shares with it. */ -}}
{{- define "livecpm-agent.adopt" -}}
{{- if or .Values.gardenlet.adopt (include "livecpm-agent.byGardenlet" .) }}true{{ end -}}
{{- end -}}

{{- /*
Where everything is. The network policies of Gardener let nobody in to the etcds of shoots but pods in the namespace garden, so
the namespace that a gardenlet makes for the installation stays empty.
*/ -}}
{{- define "livecpm-agent.namespace" -}}
{{- if include "livecpm-agent.byGardenlet" . }}garden{{ else }}{{ .Release.Namespace }}{{ end -}}
{{- end -}}

{{- /* The lease is the same for all agents of the seed, wherever they run. */ -}}
{{- define "livecpm-agent.leaseNamespace" -}}
{{ .Values.config.leaderElection.resourceNamespace | default "garden" }}
{{- end -}}

{{- define "livecpm-agent.config" -}}
{{- $gardenlet := dict "configurationFile" "/etc/livecpm-agent/gardenlet/config.yaml" -}}
{{- $kubeconfig := "/etc/livecpm-agent/garden/kubeconfig" -}}
{{- if include "livecpm-agent.adopt" . -}}
{{- $source := dict "namespace" .Values.gardenlet.deployment.namespace "deployment" .Values.gardenlet.deployment.name -}}
{{- if include "livecpm-agent.byGardenlet" . -}}
{{- $_ := set $source "gardenAccessSecret" (dict "namespace" .Release.Namespace "name" "garden-access-extension") -}}
{{- end -}}
{{- $_ := set $gardenlet "source" $source -}}
{{- $kubeconfig = "/etc/livecpm-agent/gardenlet/kubeconfig" -}}
{{- end -}}
{{- $relay := dict "image" (include "livecpm-agent.image" .Values.relay.image) -}}
{{- with .Values.relay.imagePullSecrets -}}
{{- $secrets := list -}}
{{- range . -}}
{{- $secrets = append $secrets (dict "namespace" (.namespace | default (include "livecpm-agent.namespace" $)) "name" .name) -}}
{{- end -}}
{{- $_ := set $relay "imagePullSecrets" $secrets -}}
{{- end -}}
{{- $chart := dict
  "apiVersion" "config.livecpm.gardener.cloud/v1alpha1"
  "kind" "AgentConfiguration"
  "gardenClientConnection" (dict "kubeconfig" $kubeconfig)
  "gardenlet" $gardenlet
  "relay" $relay
  "leaderElection" (dict "resourceNamespace" (include "livecpm-agent.leaseNamespace" .))
-}}
{{- mergeOverwrite (deepCopy .Values.config) $chart | toYaml -}}
{{- end -}}

{{- /* What a container needs to read the agent's configuration and what that refers to. */ -}}
{{- define "livecpm-agent.volumeMounts" -}}
- name: config
  mountPath: /etc/livecpm-agent/config
  readOnly: true
- name: gardenlet-config
  mountPath: /etc/livecpm-agent/gardenlet
  {{- if not (include "livecpm-agent.adopt" .) }}
  readOnly: true
- name: garden-kubeconfig
  mountPath: /etc/livecpm-agent/garden
  readOnly: true
  {{- end }}
{{- end -}}

{{- define "livecpm-agent.volumes" -}}
- name: config
  configMap:
    name: livecpm-agent
{{- if include "livecpm-agent.adopt" . }}
- name: gardenlet-config
  # It holds a kubeconfig: not on a disk.
  emptyDir:
    medium: Memory
    sizeLimit: 8Mi
{{- else }}
- name: gardenlet-config
  configMap:
    name: {{ required ".Values.gardenlet.configMap.name is required unless .Values.gardenlet.adopt is true" .Values.gardenlet.configMap.name }}
    items:
    - key: {{ .Values.gardenlet.configMap.key }}
      path: config.yaml
- name: garden-kubeconfig
  secret:
    secretName: {{ required ".Values.gardenlet.gardenKubeconfig.secretName is required unless .Values.gardenlet.adopt is true" .Values.gardenlet.gardenKubeconfig.secretName }}
    defaultMode: 0440
    items:
    - key: {{ .Values.gardenlet.gardenKubeconfig.key }}
      path: kubeconfig
{{- end }}
{{- end -}}

{{- /* Writes what the agent shares with the gardenlet before the container starts. */ -}}
{{- define "livecpm-agent.adoptContainer" -}}
- name: adopt
  image: {{ include "livecpm-agent.image" .Values.image }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  args:
  - adopt
  - --config=/etc/livecpm-agent/config/config.yaml
  resources:
    requests:
      cpu: 10m
      memory: 64Mi
    limits:
      memory: 256Mi
  securityContext:
    {{- include "livecpm-agent.containerSecurityContext" . | nindent 4 }}
  volumeMounts:
  {{- include "livecpm-agent.volumeMounts" . | nindent 2 }}
{{- end -}}

{{- define "livecpm-agent.containerSecurityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{- define "livecpm-agent.podSecurityContext" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end -}}
