// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package pod holds what the programs that run in the shoots' namespaces have in common, the relay and the front of an
// etcd: configuration files, certificates that are read again when they change, and plain HTTP for probes and metrics.
// It needs no access to an API server, as they do not.
package pod
