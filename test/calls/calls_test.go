// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package calls_test

import (
	"context"
	"errors"
	"reflect"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/livecpm/livecpm/test/calls"
)

var _ = Describe("Calls of a client", func() {
	var (
		ctx  = context.Background()
		pod  = func() *corev1.Pod { return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pod"}} }
		key  = client.ObjectKey{Namespace: "ns", Name: "pod"}
		with = func(funcs interceptor.Funcs, objects ...client.Object) client.Client {
			return fake.NewClientBuilder().WithObjects(objects...).WithStatusSubresource(&corev1.Pod{}).
				WithInterceptorFuncs(funcs).Build()
		}
	)

	It("should be seen whichever way they come, with what they are for", func() {
		var seen []calls.Call
		c := with(calls.Before(func(call calls.Call) error {
			seen = append(seen, calls.Call{Verb: call.Verb, Subresource: call.Subresource, Key: call.Key,
				DryRun: call.DryRun})
			return nil
		}))
		object := pod()
		Expect(c.Create(ctx, object)).To(Succeed())
		Expect(c.Get(ctx, key, object)).To(Succeed())
		Expect(c.List(ctx, &corev1.PodList{})).To(Succeed())
		Expect(c.Update(ctx, object)).To(Succeed())
		Expect(c.Status().Update(ctx, object)).To(Succeed())
		Expect(c.Patch(ctx, object, client.MergeFrom(object.DeepCopy()), client.DryRunAll)).To(Succeed())
		Expect(c.Status().Patch(ctx, object, client.MergeFrom(object.DeepCopy()))).To(Succeed())
		Expect(c.Delete(ctx, object)).To(Succeed())
		Expect(c.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace("ns"))).To(Succeed())
		Expect(seen).To(Equal([]calls.Call{
			{Verb: calls.Create, Key: key},
			{Verb: calls.Get, Key: key},
			{Verb: calls.List},
			{Verb: calls.Update, Key: key},
			{Verb: calls.Update, Subresource: "status", Key: key},
			{Verb: calls.Patch, Key: key, DryRun: true},
			{Verb: calls.Patch, Subresource: "status", Key: key},
			{Verb: calls.Delete, Key: key},
			{Verb: calls.DeleteAllOf},
		}))
		var writes int
		for _, call := range seen {
			if call.Writes() {
				writes++
			}
		}
		Expect(writes).To(Equal(6), "all but the two reads and the dry run")
	})

	It("should be all that a client can do but watch", func() {
		funcs := reflect.ValueOf(calls.Refuse(nil))
		for i := range funcs.NumField() {
			name := funcs.Type().Field(i).Name
			Expect(funcs.Field(i).IsNil()).To(Equal(name == "Watch" || name == "SubResource"), name)
		}
	})

	It("should be refused by their verbs, and not be made then", func() {
		c := with(calls.Refuse(errors.New("no route"), calls.Delete, calls.List), pod())
		Expect(c.Delete(ctx, pod())).To(MatchError("no route"))
		Expect(c.List(ctx, &corev1.PodList{})).To(MatchError("no route"))
		Expect(c.Get(ctx, key, &corev1.Pod{})).To(Succeed())
	})

	It("should be told after they were made, with their answer, and only if they succeeded", func() {
		var seen []string
		c := with(calls.After(func(call calls.Call) {
			seen = append(seen, string(call.Verb)+" "+call.Object.(*corev1.Pod).ResourceVersion)
		}), pod())
		Expect(c.Get(ctx, client.ObjectKey{Namespace: "ns", Name: "other"}, &corev1.Pod{})).NotTo(Succeed())
		read := &corev1.Pod{}
		Expect(c.Get(ctx, key, read)).To(Succeed())
		Expect(read.ResourceVersion).NotTo(BeEmpty())
		Expect(seen).To(Equal([]string{"get " + read.ResourceVersion}))
	})
})
