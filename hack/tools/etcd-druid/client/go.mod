module github.com/gardener/etcd-druid/client

go 1.26.0
