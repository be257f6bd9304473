# SPDX-FileCopyrightText: The livecpm authors
# SPDX-License-Identifier: Apache-2.0
#
# Made by "make examples" from charts/livecpm-agent: change the template hack/examples/controllerregistration.yaml.tpl or the
# chart, not this file.
#
# Apply it to the (virtual) garden after the chart livecpm-garden. Where gardener-operator runs, take
# ../gardener-operator/extension.yaml instead.
---
apiVersion: core.gardener.cloud/v1
kind: ControllerDeployment
metadata:
  name: livecpm
# The gardenlets request a token for the garden for each agent, which is how extensions get one.
injectGardenKubeconfig: true
helm:
  # Values of charts/livecpm-agent. Garden and seed need none: the gardenlets mix in what the chart asks for.
  values:
    image:
      ref: {{ .Registry }}/livecpm-agent:{{ .Version }}
    relay:
      image:
        ref: {{ .Registry }}/livecpm-relay:{{ .Version }}
  # The packed chart.
  rawChart: {{ .RawChart }}
---
apiVersion: core.gardener.cloud/v1beta1
kind: ControllerRegistration
metadata:
  name: livecpm
spec:
  # No kind of extension resources belongs to livecpm, so nothing would ever demand it.
  deployment:
    policy: Always
    deploymentRefs:
    - name: livecpm
    # Both seeds of a migration need an agent. To begin with some seeds only:
    # seedSelector:
    #   matchLabels:
    #     livecpm.gardener.cloud/enabled: "true"
