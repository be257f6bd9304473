// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
)

// GatewayFault is what the stand-in for the ingress gateway takes (test/standins/ingress/gateway).
type GatewayFault struct {
	SNI     string `json:"sni"`
	Latency string `json:"latency,omitempty"`
	Cut     string `json:"cut,omitempty"`
}

const (
	familyCut     = "cut"
	familyLatency = "rtt"
)

// cutFreeze drops what is on its way and what is to come, and closes nothing, as a broken network does.
const cutFreeze = "freeze"

// traffic disturbs what goes from seed to seed for the shoot. Each connection passes one gateway, that of the seed it
// leads to, so both are made faulty.
type traffic struct {
	fault

	latency time.Duration
	cut     string
}

// trafficSpan is when members in both seeds talk to each other, or are about to.
var trafficSpan = span{
	point{gardencorev1beta1.ShootLiveMigrationDestinationEtcdPeersJoined, Boundary},
	point{gardencorev1beta1.ShootLiveMigrationSourceSeedCleanup, Inside},
}

// cuts interrupt the traffic: for less than an election of etcd takes, for longer, and for longer than any request
// waits.
func cuts() []Fault {
	const family = familyCut
	faults := []Fault{}
	for _, cut := range []struct {
		name  string
		lasts time.Duration
	}{{"5s", 5 * time.Second}, {"60s", time.Minute}, {"10m", 10 * time.Minute}} {
		faults = append(faults,
			&traffic{fault: fault{name: family + "-" + cut.name, family: family, span: trafficSpan,
				course: Course{Lasts: cut.lasts}}, cut: cutFreeze})
	}
	return faults
}

// maxLatency bounds how long latency is in force in a step that does not end.
const maxLatency = 20 * time.Minute

// latencies add to the round trip between the seeds for the rest of the step: neighbouring regions, a continent, and
// another one.
func latencies() []Fault {
	const family = familyLatency
	faults := []Fault{}
	for _, milliseconds := range []time.Duration{50, 100, 180} {
		roundTrip := milliseconds * time.Millisecond
		faults = append(faults, &traffic{
			fault: fault{name: fmt.Sprintf("%s-%s", family, roundTrip), family: family, span: trafficSpan,
				course: Course{Lasts: maxLatency, ThroughStep: true}},
			latency: roundTrip / 2, // in each direction
		})
	}
	return faults
}

// Inject implements Fault.
func (f *traffic) Inject(ctx context.Context, targets *Targets) error {
	change := f.change()
	change.SNI = "*--" + targets.Namespace + ".*"
	targets.Log("traffic between the seeds: %s", f.Name())
	return targets.on(sides, func(seed Seed) error { return targets.Gateway(seed).Add(ctx, change) })
}

// change is what the fault asks of a gateway, for no connection in particular.
func (f *traffic) change() GatewayFault {
	change := GatewayFault{Cut: f.cut}
	if f.latency > 0 {
		change.Latency = f.latency.String()
	}
	return change
}

// Heal implements Fault. It leaves other faults of the traffic in force.
func (f *traffic) Heal(ctx context.Context, targets *Targets) error {
	var errs []error
	for _, role := range sides {
		if seed, ok := targets.Seeds[role]; ok {
			errs = append(errs, targets.Gateway(seed).Lift(ctx, f.change()))
		}
	}
	return errors.Join(errs...)
}

const (
	gatewayNamespace = "istio-ingress"
	gatewaySelector  = "app=istio-ingressgateway"
	gatewayAdminPort = "15021"
)

// adminPort implements Gateway by the gateway's admin port, which is reached through the seed's API server.
type adminPort struct{ seed Seed }

// GatewayOf returns the gateway of a seed of the landscape.
func GatewayOf(seed Seed) Gateway { return adminPort{seed} }

func (p adminPort) Add(ctx context.Context, change GatewayFault) error {
	body, err := json.Marshal(change)
	if err != nil {
		return fmt.Errorf("failed to encode fault of the gateway: %w", err)
	}
	return p.each(ctx, func(pod string) error {
		return p.seed.Kube.CoreV1().RESTClient().Post().Namespace(gatewayNamespace).Resource("pods").
			Name(pod+":"+gatewayAdminPort).SubResource("proxy").Suffix("faults").
			SetHeader("Content-Type", "application/json").Body(body).Do(ctx).Error()
	})
}

func (p adminPort) Lift(ctx context.Context, change GatewayFault) error {
	return p.each(ctx, func(pod string) error {
		request := p.seed.Kube.CoreV1().RESTClient().Delete().Namespace(gatewayNamespace).Resource("pods").
			Name(pod + ":" + gatewayAdminPort).SubResource("proxy").Suffix("faults")
		for key, value := range map[string]string{"latency": change.Latency, "cut": change.Cut} {
			if value != "" {
				request.Param(key, value)
			}
		}
		return request.Do(ctx).Error()
	})
}

func (p adminPort) each(ctx context.Context, do func(pod string) error) error {
	pods, err := runningPods(ctx, p.seed, gatewayNamespace, gatewaySelector)
	if err != nil {
		return err
	}
	for _, pod := range pods {
		if err := do(pod.Name); err != nil {
			return fmt.Errorf("failed to change the faults of gateway %s in %s: %w", pod.Name, p.seed.Name, err)
		}
	}
	return nil
}
