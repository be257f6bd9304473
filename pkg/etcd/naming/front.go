// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package naming

// FrontName returns the name of the objects of an etcd's front in the shoot's namespace of the destination. The
// kube-apiservers there reach etcd through it during a migration (package front).
func FrontName(etcdRole string) string { return "livecpm-front-" + etcdRole }
