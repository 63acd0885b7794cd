# Packs the static binary, which `make build` makes before: nothing is downloaded here, and nothing but the binary is in the image.
#
#   make build && docker build -t polylog .
FROM scratch
COPY bin/polylog /polylog
# 5672 AMQP, 9092 Kafka, 15672 metrics and health, 7000 between the nodes of a cluster.
EXPOSE 5672 9092 15672 7000
VOLUME /data
ENV POLYLOG_DATA=/data POLYLOG_KAFKA_LISTEN=:9092 POLYLOG_HTTP_LISTEN=:15672
ENTRYPOINT ["/polylog"]
CMD ["serve"]
