// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package removalguard refuses the removal of livecpm while a live migration is in flight. Without its agents a live
// migration stands still wherever it is: the control plane keeps running on the etcd members of two seeds, and the gate
// keeps the gardenlets away from it.
//
// In the garden the chart's admission policy refuses it. A policy cannot look at Shoots when somebody deletes a
// ControllerRegistration or a ControllerInstallation, but at one ConfigMap: Reconciler writes there which seeds' agents
// are needed. Where Helm has installed livecpm, a hook of the charts asks Check before anything is removed.
package removalguard
