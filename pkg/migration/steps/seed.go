// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package steps

// SeedAnnotationTLSTermination on a Seed tells whether its ingress gateways end the TLS of shoots' clients (the
// gardenlet's feature gate IstioTLSTermination): "true" or "false". The agent of the seed publishes it, because
// nobody else in the garden knows the gardenlet's feature gates.
const SeedAnnotationTLSTermination = "livecpm.gardener.cloud/tls-termination"
