package estimand.testkit;

import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.cloud.netflix.eureka.server.EnableEurekaServer;

/** A real Eureka server, alone: it knows no other one. */
@SpringBootApplication
@EnableEurekaServer
public class Eureka {
  public static void main(String[] arguments) {
    SpringApplication.run(Eureka.class, arguments);
  }
}
