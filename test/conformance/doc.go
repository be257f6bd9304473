// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package conformance has Kubernetes' own conformance specs run against a shoot again and again while its control plane
// moves. Their clients are written by nobody of this project: whatever they do must succeed in each step. The specs are
// those of k8s.io/kubernetes/test/e2e, built by hack/build-tools.sh and run by Ginkgo's own command; this package
// chooses them by name, starts the rounds, and judges the reports.
package conformance
