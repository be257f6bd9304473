// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"strconv"

	v1beta1helper "github.com/gardener/gardener/pkg/api/core/v1beta1/helper"
	v1beta1constants "github.com/gardener/gardener/pkg/apis/core/v1beta1/constants"

	"github.com/livecpm/livecpm/pkg/migration/seedfacts"
)

// checkTLSTermination asks for two seeds whose ingress gateways treat the shoot's clients alike. From step 6 to step 8
// the apiserver-proxies of the nodes come to the destination's gateway as the source's expects it. A gateway of the
// other kind does not understand them, and clients inside of the shoot would get errors until step 8. In the source it
// counts what is deployed, because that is what the nodes are configured for.
func checkTLSTermination(f Facts) Finding {
	source, problem := f.sourceTLS()
	if problem != nil {
		return *problem
	}
	destination, problem := f.gatewayEndsTLS(f.Destination)
	if problem != nil {
		return *problem
	}
	if source != destination {
		return fail(TLSTermination,
			"give both gardenlets the same value of the feature gate IstioTLSTermination and wait until the shoot is "+
				"reconciled; or abort the migration, let the shoot stay, set its annotation "+
				v1beta1constants.ShootDisableIstioTLSTermination+"=true, which counts in both seeds, get it "+
				"reconciled and begin again; or choose another destination",
			"clients' TLS ends %s in seed %s, and %s in seed %s", whereTLSEnds[source], f.Source.Name,
			whereTLSEnds[destination], f.Destination.Name)
	}
	return pass(TLSTermination, "clients' TLS ends %s in both seeds", whereTLSEnds[source])
}

// sourceTLS reports whether the source's ingress gateway ends the TLS of the shoot's clients, or a finding if that is
// not known.
func (f Facts) sourceTLS() (bool, *Finding) {
	switch {
	case !f.TLSEndsRead:
		return f.gatewayEndsTLS(f.Source)
	case f.TLSEndsError != nil:
		finding := unknown(TLSTermination, "let the agent read VirtualServices in its seed (chart livecpm-agent), and "+
			"get the shoot reconciled; the check runs again by itself",
			"it could not be read where clients' TLS ends in seed %s: %v", f.Source.Name, f.TLSEndsError)
		return false, &finding
	}
	return f.TLSEndsAtGateway, nil
}

// gatewayEndsTLS reports whether the gateways of the seed end the TLS of the shoot's clients, by what the seed's agent
// has published, or a finding if that is not known.
func (f Facts) gatewayEndsTLS(seed SeedView) (bool, *Finding) {
	if !v1beta1helper.IsShootIstioTLSTerminationEnabled(f.Shoot) {
		// The shoot does not want it, whatever the seed has.
		return false, nil
	}
	if seed.Seed == nil {
		finding := unknown(TLSTermination, remedyRead, "seed %s could not be read: %v", seed.Name, seed.Error)
		return false, &finding
	}
	value := seed.Seed.Annotations[seedfacts.AnnotationTLSTermination]
	ends, err := strconv.ParseBool(value)
	if err != nil {
		finding := unknown(TLSTermination, remedyPublish,
			"the agent of seed %s has not published where clients' TLS ends (its annotation %s is %q)", seed.Name,
			seedfacts.AnnotationTLSTermination, value)
		return false, &finding
	}
	return ends, nil
}

// whereTLSEnds names where the TLS of clients ends, by whether that is the gateway.
var whereTLSEnds = map[bool]string{true: "at the ingress gateway", false: "at the kube-apiserver"}
