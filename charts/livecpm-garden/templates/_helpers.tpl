{{- /*
SPDX-FileCopyrightText: The livecpm authors
SPDX-License-Identifier: Apache-2.0
*/ -}}

{{- define "livecpm-garden.labels" -}}
app.kubernetes.io/name: livecpm
app.kubernetes.io/component: garden
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
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
{{- if include "livecpm-garden.controllerManager.elsewhere" . -}}
{{- $_ := set $chart "gardenClientConnection" (dict "kubeconfig" "/etc/livecpm-controller-manager/garden/kubeconfig") -}}
{{- end -}}
{{- mergeOverwrite (deepCopy .Values.controllerManager.config) $chart | toYaml -}}
{{- end -}}

{{- /* Who gets the permissions in the virtual garden. */ -}}
{{- define "livecpm-garden.controllerManager.subjects" -}}
{{- if .Values.controllerManager.subjects -}}
{{ toYaml .Values.controllerManager.subjects }}
{{- else if .Values.controllerManager.gardenKubeconfig.tokenRequestor.enabled -}}
- kind: ServiceAccount
  name: {{ .Values.controllerManager.serviceAccount.name }}
  namespace: {{ include "livecpm-garden.controllerManager.requestedNamespace" . }}
{{- else -}}
- kind: ServiceAccount
  name: {{ .Values.controllerManager.serviceAccount.name }}
  namespace: {{ .Release.Namespace }}
{{- end -}}
{{- end -}}

{{- /* Not empty if the garden is another cluster than the one that the pods run in. */ -}}
{{- define "livecpm-garden.controllerManager.elsewhere" -}}
{{- with .Values.controllerManager.gardenKubeconfig -}}
{{- if and .secretName .tokenRequestor.enabled -}}
{{- fail "set controllerManager.gardenKubeconfig.secretName or .tokenRequestor.enabled, not both: there is one way to the garden" -}}
{{- end -}}
{{- if or .secretName .tokenRequestor.enabled -}}true{{- end -}}
{{- end -}}
{{- end -}}

{{- /* Where Gardener's token requestor makes the service account in the virtual garden: where Gardener's own components have theirs. */ -}}
{{- define "livecpm-garden.controllerManager.requestedNamespace" -}}
kube-system
{{- end -}}

{{- /* The Secret that Gardener's token requestor keeps. Gardener's own have the same prefix. */ -}}
{{- define "livecpm-garden.controllerManager.accessSecret" -}}
shoot-access-livecpm-controller-manager
{{- end -}}

{{- /*
The kubeconfig of the token requestor's user. It names files beside it, so that it does not change when they do: a new token is
read within a minute, and for a new CA the program starts again.
*/ -}}
{{- define "livecpm-garden.controllerManager.kubeconfig" -}}
{{- $server := required "controllerManager.gardenKubeconfig.tokenRequestor.server is the address of the virtual garden" .Values.controllerManager.gardenKubeconfig.tokenRequestor.server -}}
apiVersion: v1
kind: Config
clusters:
- name: garden
  cluster:
    server: {{ $server | quote }}
    certificate-authority: bundle.crt
contexts:
- name: garden
  context:
    cluster: garden
    user: livecpm-controller-manager
current-context: garden
users:
- name: livecpm-controller-manager
  user:
    tokenFile: token
{{- end -}}

{{- /* The volume with the way to the garden, for Deployment and Job. */ -}}
{{- define "livecpm-garden.controllerManager.gardenVolume" -}}
- name: garden-kubeconfig
  {{- with .Values.controllerManager.gardenKubeconfig }}
  {{- if .secretName }}
  secret:
    secretName: {{ .secretName }}
    defaultMode: 0440
    items:
    - key: {{ .key }}
      path: kubeconfig
  {{- else }}
  projected:
    defaultMode: 0440
    sources:
    - configMap:
        name: livecpm-controller-manager
        items:
        - key: kubeconfig
          path: kubeconfig
    # The pods start when the token requestor has written both.
    - secret:
        name: {{ include "livecpm-garden.controllerManager.accessSecret" $ }}
        items:
        - key: token
          path: token
        - key: bundle.crt
          path: bundle.crt
  {{- end }}
  {{- end }}
{{- end -}}
