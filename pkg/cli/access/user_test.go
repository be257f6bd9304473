// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package access_test

import (
	"context"
	"errors"

	"github.com/gardener/gardener/pkg/client/kubernetes"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/livecpm/livecpm/pkg/cli/access"
)

var _ = Describe("User", func() {
	garden := func(name string, refused error) *access.Garden {
		return &access.Garden{Client: fakeclient.NewClientBuilder().WithScheme(kubernetes.GardenScheme).
			WithInterceptorFuncs(interceptor.Funcs{Create: func(_ context.Context, _ client.WithWatch,
				object client.Object, _ ...client.CreateOption) error {
				object.(*authenticationv1.SelfSubjectReview).Status.UserInfo.Username = name
				return refused
			}}).Build()}
	}

	It("should be the one that the garden knows", func() {
		Expect(garden("alice", nil).User(context.Background())).To(Equal("alice"))
	})

	It("should not be made up", func() {
		_, err := garden("", nil).User(context.Background())
		Expect(err).To(MatchError(ContainSubstring("does not say who you are")))
		_, err = garden("alice", errors.New("forbidden")).User(context.Background())
		Expect(err).To(MatchError(ContainSubstring("forbidden")))
	})
})
