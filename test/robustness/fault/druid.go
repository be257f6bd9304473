// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package fault

// druidDeployment is the Deployment of etcd-druid in a seed.
const druidDeployment = "etcd-druid"

// druidRestarts: a druid that starts looks at every Etcd again.
func druidRestarts() []Fault { return restarts("druid-restart", druidDeployment) }
