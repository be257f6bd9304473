// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package front

import (
	"context"
	"time"

	"google.golang.org/grpc"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Hold asks one front to hold requests, without a bound on the time that the answer takes.
func Hold(ctx context.Context, conn grpc.ClientConnInterface, id string, atMost time.Duration) error {
	return conn.Invoke(ctx, "/"+steeringService+"/Hold",
		&holdRequest{ID: id, AtMost: metav1.Duration{Duration: atMost}}, &done{}, grpc.ForceCodecV2(codec{}))
}

// Release asks one front to release a hold.
func Release(ctx context.Context, conn grpc.ClientConnInterface, id string) error {
	return conn.Invoke(ctx, "/"+steeringService+"/Release", &releaseRequest{ID: id}, &done{},
		grpc.ForceCodecV2(codec{}))
}

// DialFirst connects to the address that accepts first.
var DialFirst = dialFirst
